//! The model of a window as CSPm text (sections 2.2 and 3 of the paper), for people who have a refinement checker
//! such as FDR.

use crate::{
    flaw::Flaw,
    model::{Model, Reads, State, Step, What},
};
use std::{collections::BTreeSet, fmt::Write};
use unsnarl_model::{Event, ThreadIx};

/// The model of the events that follow this state.
///
/// Every thread is a process, every lock is one, and everything that a step needs of another thread is a channel on
/// which the two meet. For each shared object there is an assertion that fails if there is a race on it, and one
/// that fails if there is a deadlock.
///
/// # Errors
/// If the events contradict each other.
pub fn export(events: &[Event], start: &State) -> Result<String, Flaw> {
    let model = Model::of(events, start, Reads::Free)?;
    Ok(Text { model: &model }.whole())
}

struct Text<'m> {
    model: &'m Model,
}

impl Text<'_> {
    fn whole(&self) -> String {
        let model = self.model;
        let threads: Vec<usize> =
            (0..model.threads.len()).filter(|&t| !model.threads[t].is_empty()).collect();
        let objects = self.objects();
        // An order of two steps: the later one waits for the earlier one's word.
        let needs: Vec<(u32, u32)> = (0..model.steps.len() as u32)
            .flat_map(|later| model.needs(model.step(later)).iter().map(move |&earlier| (earlier, later)))
            .collect();
        let mut text =
            String::from("-- The trace model of \"interleaving inference\", as unsnarl sees it.\n\n");
        let list = |prefix: &str, numbers: &mut dyn Iterator<Item = usize>| {
            numbers.map(|number| format!("{prefix}{number}")).collect::<Vec<_>>().join(" | ")
        };
        let _ = writeln!(text, "datatype Thread = {}", list("t", &mut threads.iter().copied()));
        let _ = writeln!(text, "datatype Lock = {}", list("m", &mut (0..model.locks.len().max(1))));
        let mut all = objects.iter().map(|&object| object as usize);
        let all = list("o", &mut all);
        let _ = writeln!(text, "datatype Object = {}", if all.is_empty() { "o0" } else { &all });
        text += "channel lock, unlock, rlock, runlock : Thread.Lock\nchannel read, write : Thread.Object\n";
        let _ = writeln!(text, "channel before, after : {{0..{}}}", needs.len().max(1) - 1);
        text += "channel race, live\n\n";
        for &thread in &threads {
            let _ = writeln!(text, "THREAD{thread} = {}SKIP", self.thread(thread, &needs));
        }
        text += "\nMUTEX(m) = [] t : Thread @ lock.t.m -> unlock.t.m -> MUTEX(m)\n";
        text += "         [] t : Thread @ rlock.t.m -> READERS(m, {t})\n";
        text += "READERS(m, rs) = if empty(rs) then MUTEX(m) else\n";
        text += "    ([] t : diff(Thread, rs) @ rlock.t.m -> READERS(m, union(rs, {t})))\n";
        text += " [] ([] t : rs @ runlock.t.m -> READERS(m, diff(rs, {t})))\n";
        text += "NEED(n) = before.n -> after.n -> SKIP\n\n";
        text += "Sync = {| lock, unlock, rlock, runlock, before, after |}\nMemory = {| read, write |}\n";
        let names = threads.iter().map(|thread| format!("THREAD{thread}")).collect::<Vec<_>>();
        let _ = writeln!(text, "THREADS = {}", names.join(" ||| "));
        text += "LOCKS = ||| m : Lock @ MUTEX(m)\n";
        let _ = writeln!(
            text,
            "NEEDS = {}",
            if needs.is_empty() {
                "SKIP".into()
            } else {
                format!("||| n : {{0..{}}} @ NEED(n)", needs.len() - 1)
            }
        );
        text += "PROGRAM = THREADS [| Sync |] (LOCKS ||| NEEDS)\n\n";
        text += "RACE(v) = RACE_ERR(v) /\\ ([] x : union(Sync, Memory) @ x -> RACE(v))\n";
        text += "RACE_ERR(v) = read?a!v -> ([] b : diff(Thread, {a}) @ write.b.v -> race -> SKIP)\n";
        text += "    [] write?a!v -> ([] b : diff(Thread, {a}) @ read.b.v -> race -> SKIP)\n";
        text += "    [] write?a!v -> ([] b : diff(Thread, {a}) @ write.b.v -> race -> SKIP)\n";
        for object in objects {
            let _ = writeln!(
                text,
                "assert STOP [T= (PROGRAM [| union(Sync, Memory) |] RACE(o{object})) \\ diff(Events, {{race}})"
            );
        }
        text += "\nLIVE = live -> LIVE\nassert LIVE [F= (THREADS [| Sync |] (LOCKS ||| NEEDS)) \\ diff(Events, {live}); LIVE\n";
        text
    }

    fn objects(&self) -> BTreeSet<u32> {
        let touches = self.model.steps.iter().flat_map(|step| self.model.touches(step));
        touches.map(|touch| self.model.cells.object(touch.cell)).collect()
    }

    fn thread(&self, thread: usize, needs: &[(u32, u32)]) -> String {
        let mut text = String::new();
        for &number in &self.model.threads[thread] {
            let step = self.model.step(number);
            for (channel, _) in needs.iter().enumerate().filter(|(_, (_, later))| *later == number) {
                let _ = write!(text, "after.{channel} -> ");
            }
            self.step(step, &mut text);
            for (channel, _) in needs.iter().enumerate().filter(|(_, (earlier, _))| *earlier == number) {
                let _ = write!(text, "before.{channel} -> ");
            }
        }
        text
    }

    fn step(&self, step: &Step, text: &mut String) {
        let ThreadIx(thread) = step.thread;
        let _ = match step.what {
            What::Takes { lock, shared: false, .. } => write!(text, "lock.t{thread}.m{lock} -> "),
            What::Takes { lock, shared: true, .. } => write!(text, "rlock.t{thread}.m{lock} -> "),
            What::Gives { lock, shared: false } => write!(text, "unlock.t{thread}.m{lock} -> "),
            What::Gives { lock, shared: true } => write!(text, "runlock.t{thread}.m{lock} -> "),
            What::Access { writes, .. } => {
                let word = if writes { "write" } else { "read" };
                let objects: BTreeSet<u32> = self
                    .model
                    .touches(step)
                    .iter()
                    .map(|touch| self.model.cells.object(touch.cell))
                    .collect();
                objects.iter().try_for_each(|object| write!(text, "{word}.t{thread}.o{object} -> "))
            }
            What::Other | What::Refused { .. } | What::Joins(_) => Ok(()),
        };
    }
}
