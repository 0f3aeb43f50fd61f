//! Checks that the parts of a trace are consistent, so that indexing with them never panics.
//!
//! Not checked: numbers in events (`value`, `addr`) and warnings, which may be anything in a run that went
//! wrong, such as a join of a thread that does not exist.

use crate::Section;
use unsnarl_model::{Outcome, Places, Plan, Policy, Prefix, Site, ThreadId, ThreadIx, Trace};

/// Two parts of a trace are inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (in its {section})")]
pub struct Inconsistent {
    /// The section with the problem.
    pub section: Section,
    /// The problem.
    pub reason: &'static str,
}

type CheckResult = Result<(), &'static str>;

/// Checks everything but the events.
pub(crate) fn metadata(trace: &Trace) -> Result<(), Inconsistent> {
    let parts = [
        (Section::Plan, check_prefix(&trace.plan.prefix)),
        (Section::Plan, check_places(&trace.plan)),
        (Section::Threads, check_threads(trace)),
        (Section::Outcome, check_outcome(trace, &trace.outcome)),
        (Section::Outcome, check_warnings(trace)),
        (Section::Outcome, check_races(trace)),
        (Section::Callers, check_callers(trace)),
        (Section::Contexts, check_contexts(trace)),
    ];
    parts.into_iter().try_for_each(|(section, part)| part.map_err(|reason| Inconsistent { section, reason }))
}

pub(crate) fn events(trace: &Trace) -> Result<(), Inconsistent> {
    let checked = trace.events.iter().try_for_each(|event| {
        check_thread(trace, event.thread)?;
        require(event.site.index() < trace.sites.len(), "an event is at a site that does not exist")
    });
    checked.map_err(|reason| Inconsistent { section: Section::Events, reason })
}

fn require(holds: bool, otherwise: &'static str) -> CheckResult {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn check_thread(trace: &Trace, thread: ThreadIx) -> CheckResult {
    require(thread.index() < trace.threads.len(), "a thread does not exist")
}

fn check_site(trace: &Trace, site: Site) -> CheckResult {
    require(usize::from(site.module.0) < trace.modules.len(), "a site is in a module that does not exist")
}

fn check_prefix(prefix: &Prefix) -> CheckResult {
    let mut points = 0_u64;
    for segment in &prefix.segments {
        points = points.saturating_add(u64::from(segment.points));
        require(
            segment.thread.index() < prefix.threads.len(),
            "a segment is of a thread that does not exist",
        )?;
    }
    require(
        prefix.actions.is_empty() || prefix.actions.len() as u64 == points,
        "the number of actions does not match the number of points",
    )?;
    prefix.actions.iter().filter_map(|planned| planned.action()).try_for_each(|action| {
        let exists = usize::from(action.site.module.0) < prefix.modules.len();
        require(exists, "an action is in a module that does not exist")
    })
}

fn check_places(plan: &Plan) -> CheckResult {
    let Places { modules, spans } = &plan.places;
    spans.iter().try_for_each(|span| {
        require(usize::from(span.module.0) < modules.len(), "a place is in a module that does not exist")
    })?;
    match plan.tail {
        Policy::Race { first, second } => require(
            usize::from(first.max(second)) < spans.len(),
            "its policy is about a place that does not exist",
        ),
        _ => Ok(()),
    }
}

fn check_threads(trace: &Trace) -> CheckResult {
    require(
        trace.threads.first().is_some_and(|first| first.id == ThreadId::main()),
        "the first thread is not the main thread",
    )?;
    trace.threads.iter().try_for_each(|thread| check_site(trace, thread.start))?;
    trace.sites.iter().try_for_each(|&site| check_site(trace, site))
}

fn check_callers(trace: &Trace) -> CheckResult {
    require(
        trace.callers.is_empty() || trace.callers.len() == trace.sites.len(),
        "it has neither no callers nor one for each site",
    )?;
    trace.callers.iter().try_for_each(|&site| check_site(trace, site))
}

fn check_contexts(trace: &Trace) -> CheckResult {
    trace.contexts.iter().zip(1..).try_for_each(|(context, number)| {
        require(context.caller < number, "a call was made in a later context")?;
        check_site(trace, context.site)
    })
}

fn check_outcome(trace: &Trace, outcome: &Outcome) -> CheckResult {
    outcome.thread.iter().try_for_each(|&thread| check_thread(trace, thread))?;
    outcome.site.iter().try_for_each(|&site| check_site(trace, site))?;
    for backtrace in &outcome.backtraces {
        check_thread(trace, backtrace.thread)?;
        backtrace.frames.iter().try_for_each(|&frame| check_site(trace, frame))?;
    }
    outcome.waits.iter().try_for_each(|wait| {
        check_thread(trace, wait.thread)?;
        check_site(trace, wait.site)?;
        wait.holders.iter().try_for_each(|&holder| check_thread(trace, holder))
    })
}

fn check_warnings(trace: &Trace) -> CheckResult {
    trace.warnings.iter().try_for_each(|warning| {
        check_thread(trace, warning.thread)?;
        check_site(trace, warning.site)
    })
}

fn check_races(trace: &Trace) -> CheckResult {
    trace.races.iter().flat_map(|race| &race.sides).try_for_each(|side| {
        check_thread(trace, side.thread)?;
        check_site(trace, side.site)
    })
}
