//! ThreadSanitizer as compilers bring it along: what it reports of the same programs.

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

/// How long a run may take in all.
const LIMIT: Duration = Duration::from_secs(60);

/// A run of which all threads sleep for so long waits for ever: nothing more will come of it.
const ASLEEP: Duration = Duration::from_secs(4);

/// So many runs that wait for ever, none other having been made, are enough.
pub(super) const HANGS: usize = 10;

/// How often a program is run.
#[derive(Clone, Copy)]
pub(super) struct Runs<'a> {
    pub(super) most: usize,
    /// Whether there is nothing left to find.
    pub(super) is_enough: &'a dyn Fn(&Reports) -> bool,
}

/// A compiler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sanitizer {
    pub(super) compiler: &'static str,
}

impl Sanitizer {
    /// The compilers that are there: gcc, and clang if it is installed with the sanitizer's runtime.
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

    /// What it reports of one source file in its first run, and in all of them.
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

/// What a program with the sanitizer in it reports in its first run, and in all of them.
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

/// One run: what it says, and how it ends if it does.
fn once(binary: &Path, directory: &Path, args: &[String]) -> Result<(String, Option<ExitStatus>)> {
    let reported = binary.with_extension("said");
    let file =
        std::fs::File::create(&reported).with_context(|| format!("cannot write {}", reported.display()))?;
    // Its shadow memory does not like randomised addresses.
    let mut command = Command::new("setarch");
    command.arg("-R").arg(binary).args(args).current_dir(directory);
    // After a report it would sleep for a second before the end. Names are found by ourselves.
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

/// Whether none of a process's threads wants the processor. The sanitizer's own thread looks around now and then, for too
/// short a time to be met at it often.
fn sleeps(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    threads.filter_map(Result::ok).all(|thread| {
        let status = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name before it may have blanks and parentheses.
        status.rsplit(") ").next().is_none_or(|rest| rest.starts_with('S'))
    })
}

/// Does something for each of the items, several at a time: runs of the sanitizer spend most of their time asleep.
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
