//! Livelocks: of the rounds that repeat for ever, two are kept.
//!
//! It takes thousands of events to recognise a livelock, nearly all of which are rounds of the same operations. So an
//! executed livelock is cut off after its second round: the first one leads back to where it began, and the second one
//! shows that it does. The rest was executed, with the fair end of the schedule, but it says nothing more, and neither
//! do its context switches.

use crate::Runner;
use std::collections::{HashMap, HashSet};
use unsnarl_model::{Event, Flags, Op, OutcomeKind, Plan, SiteIx, ThreadIx, Trace};
use unsnarl_sched::changes_nothing;
use unsnarl_semantics::OpResult;

/// The maximum number of events of a round.
const MAX_PERIOD: usize = 1 << 10;

/// Of a long run, this many events at its end must consist of equal rounds; of a short one, half of them. So a round that
/// itself repeats an operation is not taken for several.
const MIN_REPEATED: usize = 1 << 12;

/// The minimum number of equal rounds.
const MIN_ROUNDS: usize = 4;

/// The maximum number of events of a round of threads that only wait, and of the events in which it is looked for.
const MAX_WAITING_PERIOD: usize = 64;
const SEARCHED: usize = 1 << 14;

/// The minimum number of times that each operation of threads that only wait must occur.
const MIN_OCCURRENCES: usize = 8;

/// Returns whether the run ended in a livelock.
pub(crate) fn is_livelock(trace: &Trace) -> bool {
    trace.outcome.kind == OutcomeKind::Livelock
}

/// Returns a livelock without the rounds after its second one; any other trace as it is. If the threads do not only wait,
/// a livelock under a random schedule has no equal rounds and stays as it is too.
pub(crate) fn cut(mut trace: Trace) -> Trace {
    if is_livelock(&trace)
        && let Some(end) = end_of_waiting_rounds(&trace.events).or_else(|| end_of_second_round(&trace.events))
    {
        trace.events.truncate(end);
        trace.warnings.retain(|warning| warning.at <= end as u64);
    }
    trace
}

/// Returns the number of events up to the end of the first two equal rounds of threads that only wait. Their operations
/// change nothing, so any order of them can repeat; but each round must have all of them.
fn end_of_waiting_rounds(events: &[Event]) -> Option<usize> {
    let tail = &events[events.len() - MIN_REPEATED.min(events.len() / 2)..];
    let mut occurrences: HashMap<Key, usize> = HashMap::new();
    for event in tail {
        *occurrences.entry(key(event)).or_default() += 1;
    }
    if !tail.iter().all(waits) || occurrences.values().any(|&count| count < MIN_OCCURRENCES) {
        return None;
    }
    let begin =
        events.iter().rposition(|event| !occurrences.contains_key(&key(event))).map_or(0, |at| at + 1);
    let has_all =
        |round: &[Event]| round.iter().map(key).collect::<HashSet<Key>>().len() == occurrences.len();
    let ends_two_rounds = |end: usize| {
        (occurrences.len()..=MAX_WAITING_PERIOD.min((end - begin) / 2)).any(|period| {
            let is_equal = |at: usize| is_same(&events[at], &events[at - period]);
            (end - period..end).rev().all(is_equal) && has_all(&events[end - period..end])
        })
    };
    (begin..=events.len().min(begin + SEARCHED)).find(|&end| ends_two_rounds(end))
}

/// Returns the number of events up to the end of the second of the equal rounds at the end. It ends at the same place of
/// the round as the run.
fn end_of_second_round(events: &[Event]) -> Option<usize> {
    let repeats = |at: usize, period: usize| is_same(&events[at], &events[at - period]);
    let is_period = |&period: &usize| {
        let length = MIN_REPEATED.min(events.len() / 2).max(MIN_ROUNDS * period);
        let first = events.len().checked_sub(length);
        first.is_some_and(|first| (first + period..events.len()).rev().all(|at| repeats(at, period)))
    };
    let period = (1..=MAX_PERIOD).find(is_period)?;
    let last_other = (period..events.len()).rfind(|&at| !repeats(at, period));
    let start = last_other.map_or(0, |at| at + 1 - period);
    let left_out = (events.len() - start - 2 * period) / period * period;
    Some(events.len() - left_out)
}

/// All about an event that is the same in each round.
type Key = (ThreadIx, Op, SiteIx, u64, u64, u64, Flags);

/// The end of a sleep is a time, and the number of a waker belongs to one round. Whether the thread was preempted or
/// blocked depends on the others.
fn key(event: &Event) -> Key {
    let value = if event.op == Op::Sleep { 0 } else { event.value };
    let size = if event.op.has_waker() { 0 } else { event.size };
    let flags = event.flags.without(Flags::PREEMPTS).without(Flags::BLOCKED);
    (event.thread, event.op, event.site, event.addr, value, size, flags)
}

/// Returns whether two events do the same with the same result.
fn is_same(a: &Event, b: &Event) -> bool {
    key(a) == key(b)
}

/// Returns whether an event changes nothing, and a loop that waits may consist of such events.
pub(crate) fn waits(event: &Event) -> bool {
    changes_nothing(event.op, event.flags) || event.op.yields() || OpResult::of(event) == OpResult::TimedOut
}

/// A runner whose livelocks are cut off.
pub(crate) struct CuttingRunner<'a, R>(pub(crate) &'a mut R);

impl<R: Runner> Runner for CuttingRunner<'_, R> {
    type Error = R::Error;

    fn run(&mut self, plan: &Plan) -> Result<Trace, R::Error> {
        self.0.run(plan).map(cut)
    }

    fn check_interrupt(&self) -> Result<(), R::Error> {
        self.0.check_interrupt()
    }

    fn announce_plans(&mut self, plans: &[Plan]) {
        self.0.announce_plans(plans);
    }

    fn run_until(
        &mut self,
        plans: &[Plan],
        accept: &mut dyn FnMut(usize, &Trace) -> bool,
    ) -> Result<Vec<Trace>, R::Error> {
        let traces = self.0.run_until(plans, &mut |at, trace| {
            if is_livelock(trace) { accept(at, &cut(trace.clone())) } else { accept(at, trace) }
        })?;
        Ok(traces.into_iter().map(cut).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::Outcome;

    /// The first site of loads, which change nothing; at others, locks are taken.
    const LOADS: u32 = 10_000;

    /// Builds a livelock of these events, each given by its thread and site.
    fn livelock(events: impl Iterator<Item = (u16, u32)>) -> Trace {
        let op = |site| if site < LOADS { Op::Lock } else { Op::AtomicLoad };
        let event = |(thread, site)| Event { site: SiteIx(site), ..Event::new(ThreadIx(thread), op(site)) };
        let outcome = Outcome { kind: OutcomeKind::Livelock, ..Outcome::exit(0) };
        Trace { events: events.map(event).collect(), outcome, ..Trace::default() }
    }

    fn round(turns: usize) -> impl Iterator<Item = (u16, u32)> {
        (0..turns).flat_map(|_| [(0, 1), (0, 2), (1, 1), (1, 2), (1, 2)])
    }

    #[test]
    fn two_rounds_are_kept() {
        let head = || (0..7).map(|site| (0, 10 + site));
        let cut = cut(livelock(head().chain(round(5_000))));
        assert_eq!(cut.events, livelock(head().chain(round(2))).events);
    }

    #[test]
    fn last_event_stays_at_its_place_in_the_round() {
        let cut = cut(livelock([(0, 10)].into_iter().chain(round(5_000)).chain(round(1).take(3))));
        let expected = [(0, 10)].into_iter().chain(round(2)).chain(round(1).take(3));
        assert_eq!(cut.events, livelock(expected).events);
    }

    #[test]
    fn cutting_again_changes_nothing() {
        let once = cut(livelock((0..40).map(|site| (0, 10 + site)).chain(round(5_000))));
        assert_eq!(cut(once.clone()).events, once.events);
    }

    #[test]
    fn long_stretches_within_a_round_are_no_round() {
        let long = || (0..500).map(|_| (0, 1)).chain((0..500).map(|_| (1, 1)));
        let cut = cut(livelock((0..20).flat_map(|_| long())));
        assert_eq!(cut.events.len(), 2_000);
    }

    #[test]
    fn short_livelock_is_cut_too() {
        let cut = cut(livelock((0..6).map(|site| (0, 10 + site)).chain((0..300).map(|_| (1, 1)))));
        assert_eq!(cut.events.len(), 8);
    }

    #[test]
    fn first_rounds_of_waiting_threads_are_kept() {
        let head = || (0..7).map(|site| (0, site));
        let loads = |site: u16| [(site % 2, LOADS + u32::from(site / 2))];
        let irregular = (0..3_000u32).flat_map(|at| loads((at * at / 7 % 4) as u16));
        let regular = (0..3_000).flat_map(|at: u16| loads(at % 4));
        let trace = livelock(head().chain(irregular).chain(regular));
        let cut = cut(trace.clone());
        assert!(cut.events.len() < 200, "{} events", cut.events.len());
        assert_eq!(cut.events, trace.events[..cut.events.len()]);
        assert_eq!(self::cut(cut.clone()).events, cut.events);
    }

    #[test]
    fn livelock_without_equal_rounds_stays() {
        let trace = livelock((0..20_000u32).map(|at| (0, at * at % 7_919)));
        assert_eq!(cut(trace.clone()).events.len(), trace.events.len());
        let other = Trace { outcome: Outcome::exit(1), ..livelock(round(5_000)) };
        assert_eq!(cut(other).events.len(), 25_000);
    }
}
