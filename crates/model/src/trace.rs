//! The record of one run.

use crate::{
    Action, Conflict, Event, Fidelity, Outcome, OutcomeKind, Plan, Policy, Prefix, Schedule, Site, SiteIx,
    Stats, ThreadId, ThreadIx, Warning,
};
use alloc::{collections::BTreeMap, string::String, vec::Vec};

/// One run: the program, its schedule, its events and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The program that was run, with its inputs.
    pub program: Program,
    /// The program's own file and its libraries.
    pub modules: Vec<Module>,
    /// The plan that determined the run.
    pub plan: Plan,
    /// Indexed by [`ThreadIx`].
    pub threads: Vec<Thread>,
    /// Indexed by [`crate::SiteIx`].
    pub sites: Vec<Site>,
    /// Indexed by [`SiteIx`], if callers were determined. For a site in the language's own libraries, the
    /// call in user code that led to it; for any other site, the site itself. A site that was reached by
    /// different calls has one entry for each.
    pub callers: Vec<Site>,
    /// The calling contexts of events, numbered from 1, as far as they were determined: see [`Event::context`].
    pub contexts: Vec<Context>,
    /// In the order of execution.
    pub events: Vec<Event>,
    /// The end of the run.
    pub outcome: Outcome,
    /// Problems that did not end the run.
    pub warnings: Vec<Warning>,
    /// Warnings about the whole program, which no thread or operation of it causes.
    pub program_warnings: Vec<String>,
    /// True if the run was recorded without control, so that its order is only the observed one.
    pub native: bool,
    /// Data races, if the run looked for them.
    pub races: Vec<Conflict>,
    /// The effect of each preemption, if it was determined.
    pub counterfactuals: Vec<Counterfactual>,
    /// Another tool's names for the objects at these addresses; empty for a trace of our own.
    pub names: Vec<(u64, String)>,
    /// The program's output.
    pub output: Output,
}

/// A call that led to an event, with the calls that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Context {
    /// The site of the call.
    pub site: Site,
    /// The number of the calling context in which the call was made, which is a smaller one; 0 for the thread's first.
    pub caller: u32,
}

/// The effect of a preemption: how the program ends without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterfactual {
    /// The number of the preempting event.
    pub event: u64,
    /// The outcome if the thread is not preempted there.
    pub outcome_without: OutcomeKind,
    /// The message of that outcome.
    pub message: String,
}

/// Everything needed to start the program again.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Program {
    /// The executable's absolute path; empty in a trace imported from another tool.
    pub path: String,
    /// Arguments, the program's name first.
    pub args: Vec<Vec<u8>>,
    /// `NAME=value`, as the program saw it.
    pub env: Vec<Vec<u8>>,
    /// The working directory.
    pub cwd: String,
    /// All of its standard input.
    pub stdin: Vec<u8>,
}

/// The program's file or a loaded library.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Module {
    /// The absolute path.
    pub path: String,
    /// The linker's build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// The load address.
    pub base: u64,
    /// The size of the loaded image.
    pub size: u64,
}

/// A thread of the run.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Thread {
    /// The thread's identity across runs.
    pub id: ThreadId,
    /// The name the program gave it; may be empty.
    pub name: String,
    /// The function it runs; for main, the program's entry point.
    pub start: Site,
}

/// The program's output.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Output {
    /// To standard output.
    pub stdout: Vec<u8>,
    /// To standard error.
    pub stderr: Vec<u8>,
}

impl Trace {
    /// Returns the executed schedule.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        Schedule::of(&self.events)
    }

    /// Returns the number of events, threads and context switches.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(&self.events)
    }

    /// Returns the identity of a thread of this trace.
    #[must_use]
    pub fn thread_id(&self, thread: ThreadIx) -> &ThreadId {
        &self.threads[thread.index()].id
    }

    /// Returns the site of an event.
    #[must_use]
    pub fn site(&self, event: &Event) -> Site {
        self.sites[event.site.index()]
    }

    /// Returns the site of an event in user code if it is known; otherwise the same as [`site`](Self::site).
    #[must_use]
    pub fn user_site(&self, event: &Event) -> Site {
        self.callers.get(event.site.index()).copied().unwrap_or_else(|| self.site(event))
    }

    /// Returns the calls that led to an event, innermost first; empty if they were not determined.
    pub fn calls(&self, event: &Event) -> impl Iterator<Item = Site> + '_ {
        let context = |number: u32| {
            let at = usize::try_from(number.checked_sub(1)?).ok()?;
            self.contexts.get(at).filter(|context| context.caller < number)
        };
        let innermost = context(event.context);
        core::iter::successors(innermost, move |inner| context(inner.caller)).map(|context| context.site)
    }

    /// Records, for events given by number, the calls that led to them, innermost first.
    pub fn add_contexts(&mut self, calls: impl IntoIterator<Item = (usize, Vec<Site>)>) {
        let mut known: BTreeMap<Context, u32> = BTreeMap::new();
        self.contexts.clear();
        for (number, calls) in calls {
            let mut caller = 0;
            for &site in calls.iter().rev() {
                let contexts = &mut self.contexts;
                caller = *known.entry(Context { site, caller }).or_insert_with(|| {
                    contexts.push(Context { site, caller });
                    contexts.len() as u32
                });
            }
            self.events[number].context = caller;
        }
    }

    /// Records, for events given by number, the calls in user code that led to them.
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

    /// Returns the operation and site of an event, without addresses.
    #[must_use]
    pub fn action(&self, event: &Event) -> Action {
        Action { op: event.op, site: self.site(event) }
    }

    /// Returns this trace's whole schedule as a prefix to follow.
    #[must_use]
    pub fn as_prefix(&self, fidelity: Fidelity) -> Prefix {
        Prefix {
            threads: self.threads.iter().map(|t| t.id.clone()).collect(),
            modules: self.modules.iter().map(|m| m.path.clone()).collect(),
            segments: self.schedule().segments,
            actions: self.events.iter().map(|e| self.action(e).into()).collect(),
            fidelity,
        }
    }

    /// Returns the plan that repeats this run and accepts no deviation.
    #[must_use]
    pub fn replay_plan(&self) -> Plan {
        Plan { prefix: self.as_prefix(Fidelity::Exact), tail: Policy::Stop, ..self.plan.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, ModuleIx, Op, Order};
    use alloc::vec;

    #[test]
    fn contexts_are_shared_by_events_with_the_same_calls() {
        let site = |offset| Site { module: ModuleIx(0), offset };
        let event = Event::new(ThreadIx::MAIN, Op::Yield);
        let mut trace = Trace { events: vec![event; 4], ..Trace::default() };
        let [main, push, pop] = [site(1), site(2), site(3)];
        trace.add_contexts([(0, vec![push, main]), (1, vec![pop, main]), (2, vec![push, main])]);
        let calls = |event: usize| trace.calls(&trace.events[event]).collect::<Vec<_>>();
        assert_eq!([calls(0), calls(1), calls(2)], [vec![push, main], vec![pop, main], vec![push, main]]);
        assert!(calls(3).is_empty(), "none were determined");
        assert_eq!(trace.contexts.len(), 3);
        let cycle = Context { site: main, caller: 1 };
        let damaged = Trace { contexts: vec![cycle], ..Trace::default() };
        assert_eq!(damaged.calls(&Event { context: 1, ..event }).count(), 0);
    }

    #[test]
    fn site_is_duplicated_for_each_caller() {
        let site = |offset| Site { module: ModuleIx(0), offset };
        let at = |site| Event {
            thread: ThreadIx::MAIN,
            op: Op::AtomicLoad,
            flags: Flags::NONE,
            order: Order::Relaxed,
            site: SiteIx(site),
            context: 0,
            size: 4,
            addr: 0,
            value: 0,
        };
        let mut trace = Trace {
            sites: vec![site(10), site(20)],
            events: vec![at(0), at(1), at(1), at(1), at(0)],
            ..Trace::default()
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
