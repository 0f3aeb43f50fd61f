//! What a run leaves behind.

use crate::{
    Action, Conflict, Event, Fidelity, ObjectKind, Outcome, OutcomeKind, Plan, Policy, Prefix, Schedule,
    Signature, Site, SiteIx, Stats, ThreadId, ThreadIx, Warning,
};
use alloc::{collections::BTreeMap, string::String, vec::Vec};

/// One run: what was started, how it was scheduled, what happened, how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What was run.
    pub program: Program,
    /// The program's own file and its libraries.
    pub modules: Vec<Module>,
    /// What decided the run.
    pub plan: Plan,
    /// By [`ThreadIx`].
    pub threads: Vec<Thread>,
    /// By [`crate::SiteIx`].
    pub sites: Vec<Site>,
    /// By [`SiteIx`], where it was looked for: the call in the user's own code that led to the site, for sites in
    /// what came with the language; for others the site itself. A site that different calls led to is there once
    /// for each.
    pub callers: Vec<Site>,
    /// In the order of execution.
    pub events: Vec<Event>,
    /// How it ended.
    pub outcome: Outcome,
    /// What went wrong without ending it.
    pub warnings: Vec<Warning>,
    /// Accesses that nothing orders, where they were looked for.
    pub races: Vec<Conflict>,
    /// What the preemptions are for, where that was found out.
    pub counterfactuals: Vec<Counterfactual>,
    /// What another tool called the things at these addresses; empty for a program of our own.
    pub names: Vec<(u64, String)>,
    /// What the program wrote.
    pub output: Output,
}

/// What a preemption is for: how the program ends without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterfactual {
    /// The number of the event that preempts.
    pub event: u64,
    /// How it ends if the thread is left alone there.
    pub outcome_without: OutcomeKind,
    /// What is said about that.
    pub message: String,
}

/// What is needed to start the program again.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Program {
    /// The executable's absolute path; empty in a trace imported from another tool.
    pub path: String,
    /// Arguments, the program's name first.
    pub args: Vec<Vec<u8>>,
    /// `NAME=value`, as the program saw it.
    pub env: Vec<Vec<u8>>,
    /// Where it ran.
    pub cwd: String,
    /// All of its standard input.
    pub stdin: Vec<u8>,
}

/// The program's file or a library that was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Module {
    /// Its absolute path.
    pub path: String,
    /// The linker's build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// Where it was loaded.
    pub base: u64,
    /// How far its image reaches from there.
    pub size: u64,
}

/// A thread of the run.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Thread {
    /// Its name across runs.
    pub id: ThreadId,
    /// The name the program gave it; may be empty.
    pub name: String,
    /// The function it runs; for main, where the program is entered.
    pub start: Site,
}

/// What the program wrote.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Output {
    /// To standard output.
    pub stdout: Vec<u8>,
    /// To standard error.
    pub stderr: Vec<u8>,
}

impl Trace {
    /// The schedule that was executed.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        Schedule::of(&self.events)
    }

    /// Size and switches.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(&self.events)
    }

    /// The name of a thread of this trace.
    #[must_use]
    pub fn thread_id(&self, thread: ThreadIx) -> &ThreadId {
        &self.threads[thread.index()].id
    }

    /// Where an event came from.
    #[must_use]
    pub fn site(&self, event: &Event) -> Site {
        self.sites[event.site.index()]
    }

    /// Where in the user's own code an event came from, where that is known; else as [`site`](Self::site).
    #[must_use]
    pub fn user_site(&self, event: &Event) -> Site {
        self.callers.get(event.site.index()).copied().unwrap_or_else(|| self.site(event))
    }

    /// Puts down which calls in the user's own code led to the events of these numbers.
    pub fn add_callers(&mut self, callers: impl IntoIterator<Item = (usize, Site)>) {
        let mut known: BTreeMap<(SiteIx, Site), SiteIx> = BTreeMap::new();
        self.callers.clone_from(&self.sites);
        for (number, caller) in callers {
            let event = &mut self.events[number];
            let site = self.sites[event.site.index()];
            event.site = *known.entry((event.site, caller)).or_insert_with(|| {
                self.sites.push(site);
                self.callers.push(caller);
                SiteIx(self.sites.len() as u32 - 1)
            });
        }
    }

    /// What an event did, without addresses.
    #[must_use]
    pub fn action(&self, event: &Event) -> Action {
        Action { op: event.op, site: self.site(event) }
    }

    /// What makes another failure the same as this one.
    #[must_use]
    pub fn signature(&self) -> Signature {
        // Where a run was when its time was up is chance, and so is what it was doing: only which limit it was counts.
        let timed_out = self.outcome.kind == OutcomeKind::Timeout;
        let limit = |message: &str| message.split(", ").next().unwrap_or_default().into();
        let Outcome { message, .. } = &self.outcome;
        Signature {
            kind: self.outcome.kind,
            place: self.outcome.site.filter(|_| !timed_out).map(|site| {
                let path = self.modules.get(site.module.0 as usize).map(|m| m.path.clone());
                (path.unwrap_or_default(), site.offset)
            }),
            message: if timed_out { limit(message) } else { message.clone() },
        }
    }

    /// This trace's whole schedule, to be followed again.
    #[must_use]
    pub fn as_prefix(&self, fidelity: Fidelity) -> Prefix {
        Prefix {
            threads: self.threads.iter().map(|t| t.id.clone()).collect(),
            modules: self.modules.iter().map(|m| m.path.clone()).collect(),
            segments: self.schedule().segments,
            actions: self.events.iter().map(|e| self.action(e)).collect(),
            fidelity,
        }
    }

    /// The plan that repeats this run and accepts nothing else.
    #[must_use]
    pub fn replay_plan(&self) -> Plan {
        Plan { prefix: self.as_prefix(Fidelity::Exact), tail: Policy::Stop, ..self.plan.clone() }
    }

    /// The synchronisation objects of this trace.
    #[must_use]
    pub fn objects(&self) -> Objects {
        Objects::of(&self.events)
    }
}

/// A synchronisation object of one trace, numbered by its kind in the order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectIx(pub u32);

/// A thing that threads synchronise through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Where in memory.
    pub addr: u64,
    /// The how-manieth of its kind to appear, from 1.
    pub nth: u32,
}

/// All synchronisation objects of a trace, told apart also when memory is used again.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// By [`ObjectIx`].
    pub all: Vec<Object>,
    at_event: Vec<Option<ObjectIx>>,
}

impl Objects {
    fn of(events: &[Event]) -> Self {
        let mut objects = Self::default();
        let mut here: BTreeMap<(ObjectKind, u64), ObjectIx> = BTreeMap::new();
        let mut counts: BTreeMap<ObjectKind, u32> = BTreeMap::new();
        for event in events {
            let kind =
                event.op.object_kind().filter(|k| !matches!(k, ObjectKind::Thread | ObjectKind::Memory));
            objects.at_event.push(kind.map(|kind| {
                let key = (kind, event.addr);
                match here.get(&key) {
                    Some(&ix) if !event.op.is_init() => ix,
                    _ => {
                        let nth = counts.entry(kind).and_modify(|n| *n += 1).or_insert(1);
                        let ix = ObjectIx(objects.all.len() as u32);
                        objects.all.push(Object { kind, addr: event.addr, nth: *nth });
                        here.insert(key, ix);
                        ix
                    }
                }
            }));
        }
        objects
    }

    /// The object that the event of this number was on.
    #[must_use]
    pub fn at(&self, event: usize) -> Option<ObjectIx> {
        self.at_event.get(event).copied().flatten()
    }

    /// The object itself.
    #[must_use]
    pub fn get(&self, ix: ObjectIx) -> &Object {
        &self.all[ix.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, ModuleIx, Op, Order};
    use alloc::vec;

    #[test]
    fn site_is_duplicated_for_each_caller() {
        let site = |offset| Site { module: ModuleIx(0), offset };
        let at = |site| Event {
            thread: ThreadIx::MAIN,
            op: Op::AtomicLoad,
            flags: Flags::NONE,
            order: Order::Relaxed,
            site: SiteIx(site),
            size: 4,
            addr: 0,
            value: 0,
        };
        let mut trace = Trace {
            sites: vec![site(10), site(20)],
            events: vec![at(0), at(1), at(1), at(1), at(0)],
            program: Program::default(),
            modules: Vec::new(),
            plan: Plan::default(),
            threads: Vec::new(),
            callers: Vec::new(),
            outcome: Outcome::exit(0),
            warnings: Vec::new(),
            races: Vec::new(),
            counterfactuals: Vec::new(),
            names: Vec::new(),
            output: Output::default(),
        };
        trace.add_callers([(1, site(70)), (2, site(80)), (3, site(70))]);
        let offsets = |of: fn(&Trace, &Event) -> Site| -> Vec<u64> {
            trace.events.iter().map(|event| of(&trace, event).offset).collect()
        };
        assert_eq!(offsets(Trace::user_site), [10, 70, 80, 70, 10]);
        assert_eq!(offsets(Trace::site), [10, 20, 20, 20, 10], "where the events are does not change");
        assert_eq!(trace.sites.len(), 4);
    }
}
