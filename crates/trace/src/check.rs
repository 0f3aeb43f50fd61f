//! Whether the parts of a trace fit together, so that nobody who indexes with them panics.
//!
//! Not checked: figures in events (`value`, `addr`) and warnings that may be anything in a run
//! that went wrong, such as a join of a thread that does not exist.

use crate::Section;
use unsnarl_model::{Outcome, Places, Plan, Policy, Prefix, Site, ThreadId, ThreadIx, Trace};

/// Two parts of a trace do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} (in its {section})")]
pub struct Inconsistent {
    /// Where.
    pub section: Section,
    /// What.
    pub why: &'static str,
}

type Checked = Result<(), &'static str>;

/// Everything but the events.
pub(crate) fn metadata(trace: &Trace) -> Result<(), Inconsistent> {
    let parts = [
        (Section::Plan, prefix(&trace.plan.prefix)),
        (Section::Plan, places(&trace.plan)),
        (Section::Threads, threads(trace)),
        (Section::Outcome, outcome(trace, &trace.outcome)),
        (Section::Outcome, warnings(trace)),
        (Section::Outcome, races(trace)),
        (Section::Callers, callers(trace)),
    ];
    parts.into_iter().try_for_each(|(section, part)| part.map_err(|why| Inconsistent { section, why }))
}

pub(crate) fn events(trace: &Trace) -> Result<(), Inconsistent> {
    let checked = trace.events.iter().try_for_each(|event| {
        known(trace, event.thread)?;
        when(event.site.index() < trace.sites.len(), "an event is at a site that does not exist")
    });
    checked.map_err(|why| Inconsistent { section: Section::Events, why })
}

fn when(holds: bool, otherwise: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn known(trace: &Trace, thread: ThreadIx) -> Checked {
    when(thread.index() < trace.threads.len(), "a thread does not exist")
}

fn inside(trace: &Trace, site: Site) -> Checked {
    when(usize::from(site.module.0) < trace.modules.len(), "a site is in a module that does not exist")
}

fn prefix(prefix: &Prefix) -> Checked {
    let mut points = 0_u64;
    for segment in &prefix.segments {
        points = points.saturating_add(u64::from(segment.points));
        when(segment.thread.index() < prefix.threads.len(), "a segment is of a thread that does not exist")?;
    }
    when(
        prefix.actions.is_empty() || prefix.actions.len() as u64 == points,
        "it has neither no actions nor one for each point",
    )?;
    prefix.actions.iter().try_for_each(|action| {
        let exists = usize::from(action.site.module.0) < prefix.modules.len();
        when(exists, "an action is in a module that does not exist")
    })
}

fn places(plan: &Plan) -> Checked {
    let Places { modules, spans } = &plan.places;
    spans.iter().try_for_each(|span| {
        when(usize::from(span.module.0) < modules.len(), "a place is in a module that does not exist")
    })?;
    match plan.tail {
        Policy::Race { first, second } => when(
            usize::from(first.max(second)) < spans.len(),
            "its policy is about a place that does not exist",
        ),
        _ => Ok(()),
    }
}

fn threads(trace: &Trace) -> Checked {
    when(
        trace.threads.first().is_some_and(|first| first.id == ThreadId::main()),
        "the first thread is not the main thread",
    )?;
    trace.threads.iter().try_for_each(|thread| inside(trace, thread.start))?;
    trace.sites.iter().try_for_each(|&site| inside(trace, site))
}

fn callers(trace: &Trace) -> Checked {
    when(
        trace.callers.is_empty() || trace.callers.len() == trace.sites.len(),
        "it has neither no callers nor one for each site",
    )?;
    trace.callers.iter().try_for_each(|&site| inside(trace, site))
}

fn outcome(trace: &Trace, outcome: &Outcome) -> Checked {
    outcome.thread.iter().try_for_each(|&thread| known(trace, thread))?;
    outcome.site.iter().try_for_each(|&site| inside(trace, site))?;
    for backtrace in &outcome.backtraces {
        known(trace, backtrace.thread)?;
        backtrace.frames.iter().try_for_each(|&frame| inside(trace, frame))?;
    }
    outcome.waits.iter().try_for_each(|wait| {
        known(trace, wait.thread)?;
        inside(trace, wait.site)?;
        wait.holders.iter().try_for_each(|&holder| known(trace, holder))
    })
}

fn warnings(trace: &Trace) -> Checked {
    trace.warnings.iter().try_for_each(|warning| {
        known(trace, warning.thread)?;
        inside(trace, warning.site)
    })
}

fn races(trace: &Trace) -> Checked {
    trace.races.iter().flat_map(|race| &race.sides).try_for_each(|side| {
        known(trace, side.thread)?;
        inside(trace, side.site)
    })
}
