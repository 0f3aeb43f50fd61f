//! `unsnarl cargo test`: a search for each test of a cargo project.
//!
//! A test that fails under some schedule fails here. The others of its binary cannot disturb it: it runs
//! alone in its process.

mod binaries;
mod listing;
mod tell;

pub(crate) use binaries::tell_test_binary;

use crate::{
    explore::{Search, Wishes, interrupt, progress},
    options::PointSet,
    output, report, traces,
    verdict::Verdict,
    wrap::cargo::Call,
};
use anyhow::Result;
use binaries::Binary;
use listing::Test;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use tell::Tally;
use unsnarl_exec::{Error, Executor, Settings};
use unsnarl_model::{Policy, Program};

/// Runs of a test that has one thread: its schedule is always the same, only its random numbers are not.
const RUNS_OF_ONE_THREAD: u64 = 10;

/// What came of a test.
enum Fate {
    /// Searched, with the paths of its failures' traces.
    Explored { search: Box<Search>, traces: Vec<PathBuf>, one_thread: bool },
    /// Marked `#[ignore]`.
    Ignored,
    /// Impossible, for this reason.
    Unexplorable(anyhow::Error),
}

/// A test and what came of it.
struct Tested {
    binary: String,
    name: String,
    /// Whether its harness can be told to run only this one.
    is_selectable: bool,
    fate: Fate,
}

/// Builds the tests, explores each of them and tells what came of it.
pub(crate) fn explore(wishes: &Wishes, call: &Call<'_>) -> Result<Verdict> {
    let built = match binaries::build(call)? {
        Ok(built) => built,
        Err(status) => return Ok(Verdict::Status(status)),
    };
    let lists = built.binaries.iter().map(listing::tests).collect::<Result<Vec<_>>>()?;
    let mut suite = Suite { wishes, interrupt: interrupt()?, failures: 0 };
    let begin = Instant::now();
    let mut tally = Tally::default();
    for (binary, tests) in built.binaries.iter().zip(&lists) {
        suite.say(&tell::heading(binary, tests));
        for test in tests {
            let tested = suite.test(binary, test)?;
            suite.say(&tested.line(wishes));
            tally.tested.push(tested);
            if suite.is_interrupted() {
                break;
            }
        }
        if suite.is_interrupted() {
            break;
        }
    }
    tally.elapsed = begin.elapsed();
    tally.doc_tests = built.doc_tests;
    tally.interrupted = suite.is_interrupted();
    tally.remember_the_first();
    if let Some(path) = &wishes.junit {
        report::save(path, &unsnarl_report::junit("cargo test", &tally.cases()))?;
    }
    if wishes.run.json {
        output::json(&tally.json());
    } else {
        output::print(&tally.text());
    }
    Ok(tally.verdict())
}

/// The tests, one after the other.
struct Suite<'a> {
    wishes: &'a Wishes,
    interrupt: Arc<AtomicBool>,
    /// Failures so far: where the user said where traces go, they are numbered.
    failures: usize,
}

impl Suite<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    fn say(&self, text: &str) {
        if !self.wishes.run.json {
            output::print(text);
        }
    }

    /// What comes of one test.
    fn test(&mut self, binary: &Binary, test: &Test) -> Result<Tested> {
        let name = test.name.clone().unwrap_or_else(|| binary.name.clone());
        let fate = if test.ignored { Fate::Ignored } else { self.explored(binary, test, &name)? };
        let is_selectable = test.name.is_some();
        Ok(Tested { binary: binary.program.path.clone(), name, is_selectable, fate })
    }

    fn explored(&mut self, binary: &Binary, test: &Test, name: &str) -> Result<Fate> {
        let bar = progress(self.wishes.runs, self.wishes.run.json);
        bar.set_prefix(format!("{name} "));
        let program = test.program(binary);
        let one_thread = match self.threads(&program) {
            Ok(threads) => threads <= 1 + test.harness_threads(),
            Err(error) if matches!(error.downcast_ref(), Some(Error::Interrupted)) => false,
            Err(error) => return Ok(Fate::Unexplorable(error)),
        };
        let limited = one_thread.then(|| self.wishes.for_one_thread(RUNS_OF_ONE_THREAD));
        let search = match limited.as_ref().unwrap_or(self.wishes).explore(program, &self.interrupt, &bar) {
            Ok(search) => Box::new(search),
            Err(error) => return Ok(Fate::Unexplorable(error)),
        };
        let mut paths = Vec::new();
        for failure in &search.failures.0 {
            let wanted = self.wishes.path(self.failures);
            paths.push(traces::save_as(&failure.trace, wanted.as_deref(), &name.replace("::", "-"))?);
            self.failures += 1;
        }
        Ok(Fate::Explored { search, traces: paths, one_thread })
    }

    /// How many threads the program has, by one run of it.
    fn threads(&self, program: &Program) -> Result<usize> {
        unsnarl_exec::check(program.path.as_ref())?;
        let settings = Settings { interrupt: Some(self.interrupt.clone()), ..self.wishes.run.settings() };
        let plan = self.wishes.run.plan(&PointSet::Sync, program, Policy::Fair, 0)?;
        Ok(Executor::new(program.clone(), settings)?.run(&plan)?.trace().threads.len())
    }
}
