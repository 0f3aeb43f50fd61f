//! A finished run, and what can be learnt from the memory that it shared with the controller.

use crate::{Executor, HiddenInfluences, collect, monitor::LimitReached, outcome};
use std::{process::ExitStatus, sync::atomic::Ordering};
use unsnarl_model::{
    Conflict, Divergence, EnabledThreads, Event, Limit, Module, ModuleIx, Op, OutcomeKind, Output, Plan,
    Site, SiteIx, Trace,
};
use unsnarl_wire::{
    EndKind, MAX_CONFLICTS, READ_CLOCK, RawEvent, WAITING_WRITER, WITHHELD_LONG, WITHHELD_SHORT,
};

/// A finished run; its results are still in shared memory.
#[derive(Debug)]
pub struct Run<'a> {
    pub(crate) executor: &'a Executor,
    pub(crate) plan: &'a Plan,
    pub(crate) status: ExitStatus,
    pub(crate) stopped: Option<LimitReached>,
    pub(crate) rewound: bool,
    /// Output of the program.
    pub output: Output,
}

/// The time-outs that did not expire although they were a choice, see [`unsnarl_model::Timeouts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithheldTimeouts {
    /// Some because others had expired early shortly before.
    pub short: bool,
    /// Some because they are long.
    pub long: bool,
}

impl Run<'_> {
    /// Returns whether the program ended by itself with status 0 and without warnings.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let header = self.executor.memory.header();
        self.status.success()
            && matches!(header.end.kind, EndKind::Unknown | EndKind::Exit)
            && self.executor.memory.warnings().is_empty()
            && !self.executor.memory.threads().iter().skip(1).any(|t| t.joined_or_detached == 0)
    }

    /// Returns the limit that stopped the run before it ended, and a message that names the option that raises it.
    #[must_use]
    pub fn undecided(&self) -> Option<(Limit, String)> {
        match outcome::undecided(&self.executor.memory, self.status, self.stopped)? {
            (OutcomeKind::Undecided(limit), message) => Some((limit, message)),
            _ => None,
        }
    }

    /// Returns whether the run resumed from a snapshot.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.executor.memory.header().plan.resumed > 0
    }

    /// Returns whether the process was rewound after the run.
    #[must_use]
    pub fn is_rewound(&self) -> bool {
        self.rewound
    }

    /// Returns the number of events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.executor.memory.events().len() as u64
    }

    /// Returns the number of events up to the creation of the second thread.
    #[must_use]
    pub fn single_thread_points(&self) -> u64 {
        let events = self.executor.memory.events();
        events.iter().position(|event| event.op() == Some(Op::Create)).map_or(0, |create| create as u64 + 1)
    }

    /// Returns the number of events before the program used its first random number, if it used any.
    #[must_use]
    pub fn first_random(&self) -> Option<u64> {
        self.executor.memory.header().first_random.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Returns the number of threads, main included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.executor.memory.threads().len()
    }

    /// Returns the number of events after the program's first checkpoint; all if there is none.
    #[must_use]
    pub fn points(&self) -> u64 {
        let events = self.executor.memory.events();
        let checkpoint = events.iter().position(|event| event.op() == Some(Op::Checkpoint));
        events.len() as u64 - checkpoint.map_or(0, |number| number as u64 + 1)
    }

    /// Returns a hash that is equal for runs of the same schedule.
    #[must_use]
    pub fn schedule_hash(&self) -> u64 {
        self.executor.memory.events().iter().fold(0, |hash: u64, event| {
            (hash.rotate_left(5) ^ event.pc() ^ u64::from(event.thread().0) << 48)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    /// Returns the events with their code addresses. These stand for sites: they are the same in all runs of a search.
    pub fn located_events(&self) -> impl Iterator<Item = (Event, Site)> {
        let located = |raw: &RawEvent| {
            let site = Site { module: ModuleIx(0), offset: raw.pc() };
            // Indices only have to differ between sites.
            Some((collect::event(raw, |pc| SiteIx(pc as u32))?, site))
        };
        self.executor.memory.events().iter().filter_map(located)
    }

    /// Returns what the run can depend on beside the order of its events.
    #[must_use]
    pub fn hidden_influences(&self) -> HiddenInfluences {
        let header = self.executor.memory.header();
        let noted = header.influences.load(Ordering::Relaxed);
        let influences = HiddenInfluences {
            clock: noted & READ_CLOCK != 0,
            waiting_writers: noted & WAITING_WRITER != 0,
            lost_conflicts: header.conflicts.load(Ordering::Relaxed) as usize >= MAX_CONFLICTS,
            ..HiddenInfluences::default()
        };
        influences.with_events(self.located_events().map(|(event, _)| event))
    }

    /// Returns the time-outs that could not expire as early as others would have let them.
    #[must_use]
    pub fn withheld_timeouts(&self) -> WithheldTimeouts {
        let withheld = self.executor.memory.header().withheld.load(Ordering::Relaxed);
        WithheldTimeouts { short: withheld & WITHHELD_SHORT != 0, long: withheld & WITHHELD_LONG != 0 }
    }

    /// Returns the conflicts that were found, if the plan asked for them, and the modules of their sites.
    #[must_use]
    pub fn conflicts(&self) -> (Vec<Conflict>, Vec<Module>) {
        let modules = self.modules();
        (collect::conflicts(&self.executor.memory, &collect::SiteTable::new(&modules)), modules)
    }

    /// Returns the modules of the program.
    #[must_use]
    pub fn modules(&self) -> Vec<Module> {
        collect::modules(&self.executor.memory, &self.executor.program)
    }

    /// Returns the enabled threads at each event, if the plan asked for them.
    #[must_use]
    pub fn choices(&self) -> Vec<EnabledThreads> {
        self.executor.memory.choices().iter().copied().map(EnabledThreads::from).collect()
    }

    /// Returns the complete trace.
    #[must_use]
    pub fn trace(mut self) -> Trace {
        let output = std::mem::take(&mut self.output);
        self.trace_with(output)
    }

    pub(crate) fn trace_with(&self, output: Output) -> Trace {
        let Executor { memory, files, program, binding, .. } = self.executor;
        let end = (self.status, self.stopped);
        let mut trace = collect::trace(memory, &mut files.borrow_mut(), program, self.plan, end, output);
        trace.program_warnings.extend(binding.warning());
        trace
    }

    /// Returns where the run diverged from its plan, if it did.
    #[must_use]
    pub fn divergence(&self) -> Option<Divergence> {
        collect::divergence(&self.executor.memory, &self.executor.program, self.plan)
    }

    /// Returns whether the run reached the end of a plan that stops there.
    #[must_use]
    pub fn reached_plan_end(&self) -> bool {
        self.executor.memory.header().end.kind == EndKind::PlanEnd
    }
}
