//! The model of a window as CSPm text (sections 2.2 and 3 of the paper, figures 1 to 3), for use with a
//! refinement checker such as FDR.
//!
//! Deviations from the paper: an order between two steps that is not caused by a lock is one process for each
//! pair, even for a barrier with many threads, and is named after its cause. Each shared object has its
//! assertion in one text, rather than a text of its own. Deadlocks: the paper's `PROGRAM; LIVE` needs locks
//! that terminate, but its own never do, so every program would fail; here `LIVE` follows the threads.

use crate::{
    model::{Model, ModelStep, ReadRule, StepAction, SyncState},
    trace_inconsistency::TraceInconsistency,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};
use unsnarl_model::{Event, ThreadIx};
use unsnarl_semantics::{BarrierOp, CondOp, Operation, SemaphoreOp, ThreadOp};

/// Exports the model of the events that follow this state. `name` returns the names of locks and memory.
///
/// Every thread is a process, every lock is one, and so is every other dependence of a step on another
/// thread: its creation, the end of the thread that it joins, a signal, an arrival at a barrier, a post. For
/// each shared object there is an assertion that fails if there is a race on it, and one that fails if there
/// is a deadlock.
///
/// # Errors
/// Returns an error if the events contradict each other.
pub fn export(
    events: &[Event],
    start: &SyncState,
    name: &mut dyn FnMut(u64) -> String,
) -> Result<String, TraceInconsistency> {
    let model = Model::of(events, start, ReadRule::Free)?;
    let dependencies = Dependency::all(&model, events);
    Ok(CspText { model: &model, events, dependencies }.whole(name))
}

/// A step that needs another one: a process between the events of the two.
struct Dependency {
    earlier: u32,
    later: u32,
    process: &'static str,
    /// The CSP event after the earlier step, and the one before the later step.
    words: [String; 2],
}

impl Dependency {
    fn all(model: &Model, events: &[Event]) -> Vec<Self> {
        let pairs = (0..model.steps.len() as u32)
            .flat_map(|later| model.needs(model.step(later)).iter().map(move |&earlier| (earlier, later)));
        pairs.enumerate().map(|(n, (earlier, later))| Self::of(model, events, n, earlier, later)).collect()
    }

    fn of(model: &Model, events: &[Event], n: usize, earlier: u32, later: u32) -> Self {
        let steps = [earlier, later].map(|number| model.step(number));
        let [a, b] = steps.map(|step| step.thread.0);
        let operation = |step: &ModelStep| events.get(step.event as usize).map(Operation::decode);
        let [done, target] = steps.map(operation);
        let creates =
            matches!(done, Some(Operation::Thread(ThreadOp::Create { thread })) if thread.0 == u64::from(b));
        let each = |first: &str, second: &str| [format!("{first}.t{a}.{n}"), format!("{second}.t{b}.{n}")];
        let (process, words) = if creates {
            ("FORK", [format!("fork.t{a}.t{b}"), format!("start.t{b}")])
        } else if steps[1].action == StepAction::Joins(ThreadIx(a)) {
            ("JOIN", [format!("end.t{b}.t{a}"), format!("join.t{b}.t{a}")])
        } else if matches!(done, Some(Operation::Cond(CondOp::Signal { .. }))) {
            ("SIGNAL", each("signal", "wait"))
        } else if matches!(done, Some(Operation::Barrier(BarrierOp::Arrive { .. }))) {
            ("BARRIER", each("barrier_enter", "barrier_exit"))
        } else if matches!(done, Some(Operation::Semaphore(SemaphoreOp::Post { .. })))
            && matches!(target, Some(Operation::Semaphore(SemaphoreOp::Wait { .. })))
        {
            ("SEMAPHORE", each("post", "take"))
        } else {
            ("ORDER", each("before", "after"))
        };
        Self { earlier, later, process, words }
    }
}

struct CspText<'m> {
    model: &'m Model,
    events: &'m [Event],
    dependencies: Vec<Dependency>,
}

impl CspText<'_> {
    fn whole(&self, name: &mut dyn FnMut(u64) -> String) -> String {
        let model = self.model;
        let threads: Vec<usize> =
            (0..model.threads.len()).filter(|&t| !model.threads[t].is_empty()).collect();
        let objects = self.objects();
        let mut text =
            String::from("-- The trace model of \"interleaving inference\", as unsnarl sees it.\n\n");
        let list = |prefix: &str, numbers: &mut dyn Iterator<Item = usize>| {
            numbers.map(|number| format!("{prefix}{number}")).collect::<Vec<_>>().join(" | ")
        };
        let _ = writeln!(text, "datatype Thread = {}", list("t", &mut threads.iter().copied()));
        let _ = writeln!(text, "datatype Lock = {}", list("m", &mut (0..model.locks.len().max(1))));
        let all = list("o", &mut objects.keys().map(|&object| object as usize));
        let _ = writeln!(text, "datatype Object = {}", if all.is_empty() { "o0" } else { &all });
        for (number, &lock) in model.locks.iter().enumerate() {
            let _ = writeln!(text, "-- m{number} is {}", name(lock));
        }
        for (object, &addr) in &objects {
            let _ = writeln!(text, "-- o{object} begins with {}", name(addr));
        }
        text += "channel lock, unlock, rlock, runlock : Thread.Lock\nchannel read, write : Thread.Object\n";
        text += "channel fork, end, join : Thread.Thread\nchannel start : Thread\n";
        let _ = writeln!(
            text,
            "channel signal, wait, barrier_enter, barrier_exit, post, take, before, after : Thread.{{0..{}}}",
            self.dependencies.len().max(1) - 1
        );
        text += "channel race, live\n\n";
        for &thread in &threads {
            let _ = writeln!(text, "THREAD{thread} = {}SKIP", self.thread(thread));
        }
        text += "\nMUTEX(m) = ([] t : Thread @ lock.t.m -> unlock.t.m -> MUTEX(m))\n";
        text += "        [] ([] t : Thread @ rlock.t.m -> READERS(m, {t}))\n";
        text += "READERS(m, rs) = if empty(rs) then MUTEX(m) else\n";
        text += "    ([] t : diff(Thread, rs) @ rlock.t.m -> READERS(m, union(rs, {t})))\n";
        text += " [] ([] t : rs @ runlock.t.m -> READERS(m, diff(rs, {t})))\n";
        for (n, Dependency { process, words: [first, second], .. }) in self.dependencies.iter().enumerate() {
            let _ = writeln!(text, "{process}{n} = {first} -> {second} -> STOP");
        }
        text += "\nSync = {| lock, unlock, rlock, runlock, fork, start, end, join, signal, wait,\n";
        text += "          barrier_enter, barrier_exit, post, take, before, after |}\nMemory = {| read, write |}\n";
        let names = threads.iter().map(|thread| format!("THREAD{thread}")).collect::<Vec<_>>();
        let _ = writeln!(text, "THREADS = {}", names.join(" ||| "));
        let dependencies =
            self.dependencies.iter().enumerate().map(|(n, tie)| format!(" ||| {}{n}", tie.process));
        let _ = writeln!(text, "SYNCS = (||| m : Lock @ MUTEX(m)){}", dependencies.collect::<String>());
        text += "PROGRAM = THREADS [| Sync |] SYNCS\n\n";
        text += "RACE(v) = RACE_ERR(v) /\\ ([] x : union(Sync, Memory) @ x -> RACE(v))\n";
        text += "RACE_ERR(v) = read?a!v -> ([] b : diff(Thread, {a}) @ write.b.v -> race -> SKIP)\n";
        text += "    [] write?a!v -> ([] b : diff(Thread, {a}) @ read.b.v -> race -> SKIP)\n";
        text += "    [] write?a!v -> ([] b : diff(Thread, {a}) @ write.b.v -> race -> SKIP)\n";
        for object in objects.keys() {
            let _ = writeln!(
                text,
                "assert STOP [T= (PROGRAM [| union(Sync, Memory) |] RACE(o{object})) \\ diff(Events, {{race}})"
            );
        }
        text += "\nLIVE = live -> LIVE\n";
        text += "assert LIVE [F= ((THREADS ; LIVE) [| Sync |] SYNCS) \\ diff(Events, {live})\n";
        text
    }

    /// Returns the shared objects, each with one of its addresses.
    fn objects(&self) -> BTreeMap<u32, u64> {
        let mut objects = BTreeMap::new();
        for step in &self.model.steps {
            let event = self.events.get(step.event as usize);
            let Some(bytes) = event.and_then(|event| Operation::decode(event).bytes()) else { continue };
            for touch in self.model.touches(step) {
                let lowest = objects.entry(self.model.cells.object(touch.cell)).or_insert(bytes.first);
                *lowest = bytes.first.min(*lowest);
            }
        }
        objects
    }

    fn thread(&self, thread: usize) -> String {
        let mut text = String::new();
        for &number in &self.model.threads[thread] {
            for tie in self.dependencies.iter().filter(|tie| tie.later == number) {
                let _ = write!(text, "{} -> ", tie.words[1]);
            }
            self.step(self.model.step(number), &mut text);
            for tie in self.dependencies.iter().filter(|tie| tie.earlier == number) {
                let _ = write!(text, "{} -> ", tie.words[0]);
            }
        }
        text
    }

    fn step(&self, step: &ModelStep, text: &mut String) {
        let ThreadIx(thread) = step.thread;
        let _ = match step.action {
            StepAction::Acquires { lock, shared: false, .. } => write!(text, "lock.t{thread}.m{lock} -> "),
            StepAction::Acquires { lock, shared: true, .. } => write!(text, "rlock.t{thread}.m{lock} -> "),
            StepAction::Releases { lock, shared: false } => write!(text, "unlock.t{thread}.m{lock} -> "),
            StepAction::Releases { lock, shared: true } => write!(text, "runlock.t{thread}.m{lock} -> "),
            StepAction::Access { writes, .. } => {
                let word = if writes { "write" } else { "read" };
                let objects: BTreeSet<u32> = self
                    .model
                    .touches(step)
                    .iter()
                    .map(|touch| self.model.cells.object(touch.cell))
                    .collect();
                objects.iter().try_for_each(|object| write!(text, "{word}.t{thread}.o{object} -> "))
            }
            StepAction::Other | StepAction::Refused { .. } | StepAction::Joins(_) => Ok(()),
        };
    }
}
