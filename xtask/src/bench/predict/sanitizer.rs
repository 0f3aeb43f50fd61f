//! ThreadSanitizer as compilers ship it: its reports for the same programs.

use super::{Call, Reports, sanitizer_output::ProgramSymbols};
use crate::workspace::output;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use std::time::{Duration, Instant};

/// Maximum duration of a run.
const LIMIT: Duration = Duration::from_secs(60);

/// A run whose threads all sleep for this long counts as hanging.
const ASLEEP: Duration = Duration::from_secs(4);

/// Number of hanging runs that are enough, if all runs so far hang.
pub(super) const HANGS: usize = 10;

/// The number of runs of a program.
#[derive(Clone, Copy)]
pub(super) struct Runs<'a> {
    pub(super) most: usize,
    /// Returns whether everything was found.
    pub(super) is_enough: &'a dyn Fn(&Reports) -> bool,
}

/// A compiler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sanitizer {
    pub(super) compiler: &'static str,
}

impl Sanitizer {
    /// Returns the available compilers: gcc, and clang if it is installed with the sanitizer's runtime.
    pub(super) fn all(scratch: &Path) -> Vec<Self> {
        let probe = scratch.join("probe.c");
        let works = |compiler: &&str| {
            let written = std::fs::write(&probe, "int main(void) { return 0; }\n");
            let compiled = Command::new(compiler)
                .arg("-fsanitize=thread")
                .arg("-o")
                .arg(scratch.join("probe"))
                .arg(&probe)
                .stderr(Stdio::null())
                .status();
            written.is_ok() && compiled.is_ok_and(|status| status.success())
        };
        ["gcc", "clang"].into_iter().filter(works).map(|compiler| Self { compiler }).collect()
    }

    /// Returns the reports for one source file in the first run, and in all runs.
    pub(super) fn of_source(
        self,
        source: &Path,
        (include, directory): (&Path, &Path),
        call: &Call,
        runs: Runs<'_>,
    ) -> Result<(Reports, Reports)> {
        let name = super::name(source);
        let compiler = match (self.compiler, super::is_cxx(source)) {
            ("gcc", true) => "g++",
            ("clang", true) => "clang++",
            (compiler, _) => compiler,
        };
        let scratch = directory.join(format!("{name}-{compiler}"));
        std::fs::create_dir_all(&scratch)?;
        let binary = scratch.join(&name);
        let mut compile = Command::new(compiler);
        compile.args(["-fsanitize=thread", "-O1", "-g", "-pthread", "-I"]).arg(include);
        output(compile.arg("-o").arg(&binary).arg(source).args(&call.flags), &name)?;
        reports(&binary, &scratch, &call.args, runs)
    }
}

/// Returns the reports of a program with the sanitizer in the first run, and in all runs.
pub(super) fn reports(
    binary: &Path,
    directory: &Path,
    args: &[String],
    runs: Runs<'_>,
) -> Result<(Reports, Reports)> {
    let mut symbols = ProgramSymbols::of(binary)?;
    let mut all = Reports::default();
    let mut first = Reports::default();
    let mut hangs = 0;
    for run in 0..runs.most {
        let (text, ended) = once(binary, directory, args)?;
        symbols.read(&text, &mut all)?;
        if run == 0 {
            symbols.read(&text, &mut first)?;
        }
        all.runs += 1;
        hangs += usize::from(ended.is_none());
        if (hangs == HANGS && all.runs == HANGS) || (runs.is_enough)(&all) {
            break;
        }
    }
    Ok((first, all))
}

/// Makes one run; returns its output, and its exit status if it ends.
fn once(binary: &Path, directory: &Path, args: &[String]) -> Result<(String, Option<ExitStatus>)> {
    let reported = binary.with_extension("said");
    let file =
        std::fs::File::create(&reported).with_context(|| format!("cannot write {}", reported.display()))?;
    // Its shadow memory requires addresses without randomisation.
    let mut command = Command::new("setarch");
    command.arg("-R").arg(binary).args(args).current_dir(directory);
    // After a report it would sleep for a second before the end. Symbols are resolved here.
    command.env("TSAN_OPTIONS", "atexit_sleep_ms=0 symbolize=0");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let mut child = command.spawn().context("cannot run setarch")?;
    let begin = Instant::now();
    let mut awake = begin;
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        let now = Instant::now();
        if begin.elapsed() > Duration::from_millis(200) && !sleeps(child.id()) {
            awake = now;
        }
        if now - awake > ASLEEP || begin.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            break None;
        }
        let pause = if begin.elapsed() < Duration::from_millis(200) { 5 } else { 50 };
        std::thread::sleep(Duration::from_millis(pause));
    };
    let text = String::from_utf8_lossy(&std::fs::read(&reported)?).into_owned();
    Ok((text, ended))
}

/// Returns whether none of a process's threads is running. The sanitizer's own thread wakes up now and then, too
/// briefly to be seen often.
fn sleeps(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    threads.filter_map(Result::ok).all(|thread| {
        let status = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name before it may contain blanks and parentheses.
        status.rsplit(") ").next().is_none_or(|rest| rest.starts_with('S'))
    })
}

/// Processes the items in parallel: runs of the sanitizer sleep most of the time.
pub(super) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<R>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = work(item);
                    *results[at].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(result);
                }
            });
        }
    });
    let results = results.into_iter().map(|result| {
        let result = result.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        result.unwrap_or_else(|| bail!("nobody did it"))
    });
    results.collect()
}
