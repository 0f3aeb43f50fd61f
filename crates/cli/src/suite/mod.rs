//! `unsnarl cargo test`: searches for a failing schedule of each test of a cargo project.
//!
//! A test that fails under some schedule fails here. Other tests of its binary cannot disturb it, because it runs alone
//! in its process.

mod binaries;
mod listing;
mod summary;

pub(crate) use binaries::describe_test_binary;

use crate::{
    explore::{
        RUNS_OF_ONE_THREAD, SearchOptions, SearchReport,
        budget::Budget,
        found::{self, Destination},
        interrupt, progress,
    },
    options::PointSet,
    output, report,
    verdict::Verdict,
    wrap::cargo::CargoCall,
};
use anyhow::Result;
use binaries::{BuildResult, TestBinary};
use listing::Test;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use summary::SuiteReport;
use unsnarl_exec::{Error, Executor, Settings};
use unsnarl_model::{Policy, Program};

/// The time for a test if neither a time nor a number of runs was given.
const TIME_OF_A_TEST: Duration = Duration::from_secs(10);

/// Result of a test.
enum TestOutcome {
    /// It was explored.
    Explored { search: Box<SearchReport>, one_thread: bool },
    /// Marked `#[ignore]`.
    Ignored,
    /// It cannot be explored, for this reason.
    NotExplorable(anyhow::Error),
}

/// A test and its result.
struct TestReport {
    binary: String,
    name: String,
    /// The harness can run only this test.
    is_selectable: bool,
    outcome: TestOutcome,
}

/// Builds the tests, explores each of them and reports the results.
pub(crate) fn explore(options: &SearchOptions, call: &CargoCall<'_>) -> Result<Verdict> {
    options.check()?;
    let built = match binaries::build(call)? {
        BuildResult::Built(built) => built,
        BuildResult::Failed(status) => return Ok(Verdict::Status(status)),
    };
    let lists = built.binaries.iter().map(listing::tests).collect::<Result<Vec<_>>>()?;
    let mut suite = Suite { options, interrupt: interrupt()?, failures: 0 };
    let begin = Instant::now();
    let mut report = SuiteReport::default();
    for (binary, tests) in built.binaries.iter().zip(&lists) {
        suite.print_line(&summary::heading(binary, tests));
        for test in tests {
            let tested = suite.test(binary, test)?;
            suite.print_line(&tested.line(options));
            report.tested.push(tested);
            if suite.is_interrupted() {
                break;
            }
        }
        if suite.is_interrupted() {
            break;
        }
    }
    report.elapsed = begin.elapsed();
    report.doc_tests = built.doc_tests;
    report.interrupted = suite.is_interrupted();
    report.mark_first_failure_latest();
    if let Some(path) = &options.junit {
        report::save(path, &unsnarl_report::junit("cargo test", &report.cases()))?;
    }
    if options.run.json {
        output::json(&report.json());
    } else {
        output::print(&report.text());
    }
    Ok(report.verdict())
}

/// The tests and their results so far.
struct Suite<'a> {
    options: &'a SearchOptions,
    interrupt: Arc<AtomicBool>,
    /// Failures so far, which number the traces if the user named a path.
    failures: usize,
}

impl Suite<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    fn print_line(&self, text: &str) {
        if !self.options.run.json {
            output::print(text);
        }
    }

    /// Explores one test.
    fn test(&mut self, binary: &TestBinary, test: &Test) -> Result<TestReport> {
        let name = test.name.clone().unwrap_or_else(|| binary.name.clone());
        let outcome = if test.ignored { TestOutcome::Ignored } else { self.explored(binary, test, &name)? };
        let is_selectable = test.name.is_some();
        Ok(TestReport { binary: binary.program.path.clone(), name, is_selectable, outcome })
    }

    fn explored(&mut self, binary: &TestBinary, test: &Test, name: &str) -> Result<TestOutcome> {
        let default = self.options.runs.is_none().then_some(TIME_OF_A_TEST);
        let budget = Budget::begin(self.options.runs, self.options.time.or(default));
        let bar = progress(&budget, self.options.run.json);
        bar.set_prefix(format!("{name} "));
        let program = test.program(binary);
        let one_thread = match self.threads(&program, &budget) {
            Ok(threads) => threads <= 1 + test.harness_threads(),
            Err(error) if matches!(error.downcast_ref(), Some(Error::Interrupted)) => false,
            Err(error) => return Ok(TestOutcome::NotExplorable(error)),
        };
        let limited = one_thread.then(|| self.options.for_one_thread(RUNS_OF_ONE_THREAD));
        let options = limited.as_ref().unwrap_or(self.options);
        let budget = Budget { runs: options.runs, ..budget };
        let requested = self.options.run.output.clone();
        let destination = Destination {
            beside: requested.clone(),
            requested,
            before: self.failures,
            name: name.replace("::", "-"),
        };
        let mut search = match options.explore(program, budget, (&self.interrupt, &bar), &destination) {
            Ok(search) => Box::new(search),
            Err(error) => return Ok(TestOutcome::NotExplorable(error)),
        };
        for (nth, failure) in search.failures.0.iter_mut().enumerate() {
            found::finish(&destination, nth, &failure.trace, &mut failure.saved);
        }
        self.failures += search.failures.0.len();
        Ok(TestOutcome::Explored { search, one_thread })
    }

    /// Returns the number of threads of the program, from one run.
    fn threads(&self, program: &Program, budget: &Budget) -> Result<usize> {
        unsnarl_exec::check(program.path.as_ref())?;
        let settings = Settings {
            interrupt: Some(self.interrupt.clone()),
            until: budget.until,
            ..self.options.run.settings()
        };
        let plan = self.options.run.plan(&PointSet::Sync, program, Policy::Fair, 0)?;
        Ok(Executor::new(program.clone(), settings)?.run(&plan)?.trace().threads.len())
    }
}
