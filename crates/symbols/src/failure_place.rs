//! The place of a failure in terms that other builds of the program share.
//!
//! Directories, code offsets and absolute lines differ between two builds of the same source, or change when code
//! elsewhere is changed. Functions, lines counted from where a function begins, and names of variables do not. Code of
//! the language stands for the user's function that called it.

use crate::{Frame, Symbols};
use std::collections::HashSet;
use unsnarl_model::{Op, OutcomeKind, Site, ThreadIx, Trace, Wait};

/// Suffixes that gcc and clang give to copies and parts of functions.
const CLONES: [&str; 8] =
    [".part.", ".constprop.", ".isra.", ".cold", ".lto_priv.", ".llvm.", ".localalias", ".clone."];

/// Frames of a stack that are searched for the caller of the function that failed.
const MAX_FRAMES: usize = 16;

/// Returns the place of a failure: what [`unsnarl_model::Outcome::place`] holds. Empty if the run did not fail, or if
/// nothing is known.
#[must_use]
pub fn failure_place(trace: &Trace, symbols: &mut Symbols) -> String {
    let mut places = Places { trace, symbols };
    let outcome = &trace.outcome;
    match outcome.kind {
        _ if !outcome.is_failure() => String::new(),
        OutcomeKind::Race => places.race().or_else(|| places.site(outcome.site?)).unwrap_or_default(),
        OutcomeKind::Deadlock => places.deadlock().unwrap_or_default(),
        // Nothing else distinguishes two crashes in a function that many others call.
        OutcomeKind::Signal(_) | OutcomeKind::Abort => places.with_caller().unwrap_or_default(),
        OutcomeKind::Exit(_) => match outcome.site.or_else(|| trace.site_of_exit()) {
            // The status is the value that main returned.
            Some(site) => places.user_site(site).unwrap_or_else(|| "main".into()),
            None => String::new(),
        },
        _ => outcome.site.and_then(|site| places.site(site)).unwrap_or_default(),
    }
}

struct Places<'a> {
    trace: &'a Trace,
    symbols: &'a mut Symbols,
}

impl Places<'_> {
    /// Returns the functions at a site, innermost first, each with the place in it.
    fn functions(&mut self, site: Site) -> Vec<(Frame, String)> {
        let frames = self.symbols.lookup(&self.trace.modules, site);
        let mut declared = self.symbols.declaration_lines(&self.trace.modules, site);
        if declared.len() != frames.len() {
            declared = vec![None; frames.len()];
        }
        let place = |(frame, declared): (Frame, Option<u32>)| {
            let function = function_name(&frame);
            let line = frame.line.zip(declared).map(|(line, declared)| i64::from(line) - i64::from(declared));
            let place = match line {
                Some(line) => format!("{function} line {line}"),
                None => function,
            };
            (frame, place)
        };
        frames.into_iter().zip(declared).map(place).collect()
    }

    /// Returns the innermost place at a site in the user's code, if there is any.
    fn user_site(&mut self, site: Site) -> Option<String> {
        self.functions(site).into_iter().find(|(frame, _)| !frame.system).map(|(_, place)| place)
    }

    /// Returns the innermost place at a site, in the user's code if there is any.
    fn site(&mut self, site: Site) -> Option<String> {
        let mut functions = self.functions(site);
        let of_user = functions.iter().position(|(frame, _)| !frame.system).unwrap_or(0);
        (of_user < functions.len()).then(|| functions.swap_remove(of_user).1)
    }

    /// Returns the place of the failing thread, and the user's function that called the one that failed.
    fn with_caller(&mut self) -> Option<String> {
        let site = self.trace.outcome.site?;
        let place = self.site(site)?;
        let stack =
            self.trace.outcome.backtraces.first().map(|stack| stack.frames.as_slice()).unwrap_or_default();
        let start = stack.iter().position(|frame| *frame == site).unwrap_or(0);
        let mut of_user = stack[start..]
            .iter()
            .take(MAX_FRAMES)
            .flat_map(|frame| self.symbols.lookup(&self.trace.modules, *frame))
            .filter(|frame| !frame.system)
            .map(|frame| function_name(&frame));
        let failed = of_user.next()?;
        // The depth of a recursion does not matter.
        let caller = of_user.find(|function| *function != failed);
        Some(caller.map_or_else(|| place.clone(), |caller| format!("{place}, called by {caller}")))
    }

    /// Returns both accesses of the first race.
    fn race(&mut self) -> Option<String> {
        let race = self.trace.races.first()?;
        let mut sides = Vec::new();
        for side in &race.sides {
            sides.push(format!("{} at {}", side.op.name(), self.site(side.site)?));
        }
        sides.sort();
        Some(format!("{}: {}", self.object(race.addr), sides.join(" and ")))
    }

    /// Returns the waits of the threads that wait for each other. If no threads do, how many wait depends on the
    /// schedule, and one wait stands for all.
    fn deadlock(&mut self) -> Option<String> {
        let waits = &self.trace.outcome.waits;
        let (cycle, others): (Vec<&Wait>, Vec<&Wait>) =
            waits.iter().partition(|wait| is_in_cycle(waits, wait.thread));
        let mut places: Vec<String> = cycle.iter().filter_map(|wait| self.wait(wait)).collect();
        if places.is_empty() {
            let all = others.iter().filter(|wait| wait.op != Op::Join);
            places.extend(all.filter_map(|wait| self.wait(wait)).min());
        }
        places.sort();
        places.dedup();
        (!places.is_empty()).then(|| places.join(", "))
    }

    fn wait(&mut self, wait: &Wait) -> Option<String> {
        // A wait inside the language's library has a caller in the user's code.
        let stack = self.trace.outcome.backtraces.iter().find(|stack| stack.thread == wait.thread);
        let frames = stack.map(|stack| stack.frames.as_slice()).unwrap_or_default();
        let site = self.symbols.user_frame(&self.trace.modules, frames).unwrap_or(wait.site);
        Some(format!("{} {} at {}", wait.op.name(), self.object(wait.addr), self.site(site)?))
    }

    /// Returns the name of the global variable at an address; empty for other objects.
    fn object(&mut self, addr: u64) -> String {
        self.symbols.data_symbol(&self.trace.modules, addr).unwrap_or_default()
    }
}

/// Returns whether a thread waits for others that, in the end, wait for it.
fn is_in_cycle(waits: &[Wait], thread: ThreadIx) -> bool {
    let holders = |thread: ThreadIx| {
        waits.iter().filter(move |wait| wait.thread == thread).flat_map(|wait| wait.holders.iter().copied())
    };
    let mut seen: HashSet<ThreadIx> = HashSet::new();
    let mut next: Vec<ThreadIx> = holders(thread).collect();
    while let Some(reached) = next.pop() {
        if reached == thread {
            return true;
        }
        if seen.insert(reached) {
            next.extend(holders(reached));
        }
    }
    false
}

/// Returns a function's name as other builds have it.
fn function_name(frame: &Frame) -> String {
    let name = frame.function.as_deref().unwrap_or("?");
    // The offset in a library of the system is that of one version.
    let name = if frame.system { name.split("+0x").next().unwrap_or(name) } else { name };
    let end = CLONES.iter().filter_map(|suffix| name.find(suffix)).min().unwrap_or(name.len());
    name[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::ModuleIx;

    fn named(function: &str, system: bool) -> String {
        function_name(&Frame { function: Some(function.into()), system, ..Frame::default() })
    }

    #[test]
    fn copies_of_a_function_have_its_name() {
        assert_eq!(named("withdraw.part.0", false), "withdraw");
        assert_eq!(named("withdraw.constprop.0.isra.0", false), "withdraw");
        assert_eq!(named("pthread_mutex_lock+0x12", true), "pthread_mutex_lock");
        assert_eq!(
            named("visit+0x1c", false),
            "visit+0x1c",
            "without line numbers the offset is all there is"
        );
    }

    #[test]
    fn only_threads_that_wait_for_each_other_are_a_cycle() {
        let wait = |thread, holders: &[u16]| Wait {
            thread: ThreadIx(thread),
            op: Op::Lock,
            addr: 0,
            site: Site { module: ModuleIx(0), offset: 0 },
            holders: holders.iter().copied().map(ThreadIx).collect(),
        };
        let waits = [wait(0, &[1]), wait(1, &[2]), wait(2, &[1]), wait(3, &[3])];
        let in_cycle: Vec<bool> = (0..4).map(|thread| is_in_cycle(&waits, ThreadIx(thread))).collect();
        assert_eq!(in_cycle, [false, true, true, true], "thread 0 only waits for a cycle");
    }
}
