//! The patterns of concurrency bugs that people know, each in its own file: a predicate over the steps of a run. A bug is
//! called by a name only if the predicate holds.

mod aba;
mod atomicity;
mod check_then_act;
mod consumed_signal;
mod double_release;
mod lock_not_held;
mod lock_order;
mod lost_update;
mod missed_signal;
mod order;
mod publication;
mod use_after_free;
mod use_before_initialisation;

#[cfg(test)]
pub(crate) mod toy;

use crate::{scene::Scene, story::Gap};
use unsnarl_model::OutcomeKind;

/// A pattern by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    LostUpdate,
    CheckThenAct,
    TwoSections,
    Atomicity,
    UseBeforeInitialisation,
    Publication,
    UseAfterFree,
    Order,
    LockOrder,
    MissedSignal,
    ConsumedSignal,
    Aba,
    DoubleRelease,
}

impl Pattern {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::LostUpdate => "lost update",
            Self::CheckThenAct => "check-then-act",
            Self::TwoSections => "atomicity violation across two critical sections",
            Self::Atomicity => "atomicity violation",
            Self::UseBeforeInitialisation => "use before initialisation",
            Self::Publication => "publication before construction",
            Self::UseAfterFree => "use after free",
            Self::Order => "order violation",
            Self::LockOrder => "lock-order deadlock",
            Self::MissedSignal => "missed signal",
            Self::ConsumedSignal => "signal consumed by another waiter",
            Self::Aba => "ABA",
            Self::DoubleRelease => "double release",
        }
    }

    /// Returns whether the pattern's last step is where the run failed, so that it is certain to be the cause.
    const fn ends_the_run(self) -> bool {
        matches!(
            self,
            Self::LockOrder
                | Self::MissedSignal
                | Self::ConsumedSignal
                | Self::UseAfterFree
                | Self::DoubleRelease
        )
    }

    /// Returns how much a match says by itself: a more special pattern says more.
    const fn weight(self) -> i32 {
        match self {
            Self::LockOrder | Self::MissedSignal | Self::ConsumedSignal => 100,
            Self::UseAfterFree | Self::DoubleRelease | Self::Aba => 90,
            Self::TwoSections => 60,
            Self::Publication => 58,
            Self::LostUpdate => 56,
            Self::UseBeforeInitialisation => 52,
            Self::CheckThenAct => 48,
            Self::Atomicity => 46,
            Self::Order => 40,
        }
    }
}

/// The moment of a step relative to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It happened before the others.
    First,
    Meanwhile,
    Then,
    /// It had not happened when the run failed; the thread would have executed it next.
    NotYet,
}

/// A step that explains the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) step: usize,
    pub(crate) when: Moment,
    /// An addition to the sentence about it.
    pub(crate) tail: String,
}

impl Fact {
    pub(crate) fn new(step: usize, when: Moment) -> Self {
        Self { step, when, tail: String::new() }
    }

    pub(crate) fn with(self, tail: &str) -> Self {
        Self { tail: tail.to_owned(), ..self }
    }
}

/// A pattern that a run matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) pattern: Pattern,
    pub(crate) facts: Vec<Fact>,
    /// The step that preempted or suspended the thread whose steps should have come together.
    pub(crate) gap: Option<usize>,
    /// The lock of the critical sections that the pattern is about.
    pub(crate) lock: Option<u64>,
    score: i32,
}

impl Finding {
    fn new(pattern: Pattern, facts: Vec<Fact>) -> Self {
        Self { pattern, facts, gap: None, lock: None, score: 0 }
    }

    fn in_gap(self, gap: &Gap) -> Self {
        Self { gap: Some(gap.at), ..self }
    }

    fn with_lock(self, lock: Option<u64>) -> Self {
        Self { lock, ..self }
    }
}

/// Number of gaps, the latest ones, in which patterns are looked for.
const MOST_GAPS: usize = 64;

/// Returns the pattern that explains the failure best, if one holds.
pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    match scene.story.trace.outcome.kind {
        // The repeated operations, or the two accesses, are the cause themselves.
        OutcomeKind::Livelock | OutcomeKind::Race => return None,
        OutcomeKind::Deadlock => {
            found.extend(lock_order::find(scene));
            found.extend(missed_signal::find(scene));
            found.extend(consumed_signal::not_woken(scene));
        }
        _ => {
            found.extend(use_after_free::find(scene));
            found.extend(double_release::find(scene));
            found.extend(aba::find(scene));
            found.extend(consumed_signal::find(scene));
            if matches!(scene.story.trace.outcome.kind, OutcomeKind::Signal(_)) {
                found.extend(order::find_reset(scene));
            }
        }
    }
    let gaps = scene.story.gaps();
    for gap in &gaps[gaps.len().saturating_sub(MOST_GAPS)..] {
        let in_gap = [
            lost_update::find(scene, gap),
            check_then_act::find(scene, gap),
            atomicity::find(scene, gap),
            publication::find(scene, gap),
            use_before_initialisation::find(scene, gap),
            order::find(scene, gap),
        ];
        found.extend(in_gap.into_iter().flatten().map(|finding| finding.in_gap(gap)));
    }
    let scored = found.into_iter().filter_map(|finding| {
        let score = score(scene, &finding)?;
        Some(Finding { score, ..finding })
    });
    // Of equals, the later one is closer to the failure.
    scored.max_by_key(|finding| finding.score)
}

/// Returns how certainly a finding is the cause of the failure; `None` if it may have nothing to do with it.
fn score(scene: &Scene<'_>, finding: &Finding) -> Option<i32> {
    let steps = || finding.facts.iter().map(|fact| fact.step);
    let relation = if steps().any(|step| scene.is_failing(step)) {
        30
    } else if steps().any(|step| scene.is_earlier(step)) {
        20
    } else {
        0
    };
    let is_needed =
        |gap: usize| scene.story.trace.counterfactuals.iter().any(|without| without.event == gap as u64);
    let preemptive = finding
        .gap
        .is_some_and(|gap| scene.story.trace.events[gap].flags.has(unsnarl_model::Flags::PREEMPTS));
    let needed = if finding.gap.is_some_and(is_needed) { 10 } else { 0 };
    let is_related = finding.pattern.ends_the_run() || relation + needed > 0;
    is_related.then(|| finding.pattern.weight() + relation + needed + if preemptive { 10 } else { 0 })
}

/// Returns the remark that a lock is not held at a step though it is at most other accesses to the same memory.
pub(crate) fn lock_not_held(scene: &Scene<'_>, step: usize) -> Option<lock_not_held::NotHeld> {
    lock_not_held::find(scene, step)
}

/// The number of a thread's own steps, before and after a gap, that are looked at.
const OWN_STEPS: usize = 400;

/// Returns the thread's first access after a gap to the memory that a step after it accesses.
fn is_first_after(scene: &Scene<'_>, gap: &Gap, step: usize) -> bool {
    let story = scene.story;
    match gap.resumed {
        Some(resumed) if step < story.end => {
            story.meeting(step, resumed..step).iter().all(|&at| story.thread(at) != gap.thread)
        }
        _ => story.after(gap).take_while(|&at| at != step).all(|at| !story.meet(at, step)),
    }
}

/// Returns whether the thread has not written what a step writes since a gap.
fn is_first_write_after(scene: &Scene<'_>, gap: &Gap, step: usize) -> bool {
    let story = scene.story;
    let own = story.after(gap).take(OWN_STEPS).take_while(|&at| at != step);
    own.filter(|&at| story.write(at).is_some()).all(|at| !story.meet(at, step))
}

/// Returns the thread's last access before a gap to the memory that a step accesses.
fn last_before(scene: &Scene<'_>, gap: &Gap, step: usize) -> Option<usize> {
    let story = scene.story;
    story.meeting(step, 0..gap.at).into_iter().find(|&at| story.thread(at) == gap.thread)
}

/// Returns the last write by another thread during a gap to the memory that a step accesses.
fn written_meanwhile(scene: &Scene<'_>, gap: &Gap, step: usize) -> Option<usize> {
    let story = scene.story;
    let meanwhile = story.meeting(step, story.meanwhile(gap));
    meanwhile.into_iter().find(|&at| story.write(at).is_some() && story.changes(at))
}
