//! The part of a program that a search has seen, and the chance that further runs show something new.
//!
//! Runs with the same happens-before graph (`state.rs`) form a *schedule class*. The chance that the next random
//! schedule belongs to a new class is about the share of classes that occurred once: each run is left out in turn,
//! and those are the runs that would have been new (Good, "The Population Frequencies of Species and the Estimation
//! of Population Parameters", Biometrika 1953, which credits Turing).
//!
//! The estimate needs runs that are drawn independently from one distribution. Those are the runs of the random walk,
//! of POS and of PCT; strategies that learn from each run are not counted. New schedule points change the
//! distribution, so counting starts again. No classes that occurred once does not mean that none is left: the estimate
//! then is what one of them would give.

use crate::seeds::mix_seeds;
use std::collections::HashMap;
use unsnarl_model::{Plan, Policy};

/// The orders and schedules that a search has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coverage {
    /// The number of pairs of operations that may occur in either order.
    pub pairs: usize,
    /// The number of these that occurred in both.
    pub both_orders: usize,
    /// The number of runs that were classified.
    pub classified: u64,
    /// The number of classes among them.
    pub classes: usize,
    /// The number of classes that occurred once.
    pub singletons: u64,
}

impl Coverage {
    /// Estimates the chance that this many further random runs show a new class; `None` if no runs were classified.
    #[must_use]
    pub fn chance_of_new(&self, runs: u32) -> Option<f64> {
        if self.classified == 0 {
            return None;
        }
        let one = (self.singletons.max(1) as f64 / self.classified as f64).min(1.0);
        Some(1.0 - (1.0 - one).powf(f64::from(runs)))
    }

    /// Returns whether the estimate is an upper bound, because every class occurred more than once.
    #[must_use]
    pub const fn is_bound(&self) -> bool {
        self.singletons == 0
    }
}

/// The runs to classify: one in `stride` of those with random schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSampling {
    stride: u64,
}

impl ClassSampling {
    /// No run.
    pub(crate) const NONE: Self = Self { stride: u64::MAX };

    /// Returns whether the run of this plan is to be classified. This depends on its seed alone, so that no kind of
    /// schedule is preferred.
    #[must_use]
    pub const fn includes(self, plan: &Plan) -> bool {
        self.stride < u64::MAX
            && draws_at_random(plan)
            && mix_seeds(plan.seed, Self::STREAM).is_multiple_of(self.stride)
    }

    /// Distinguishes this choice from the other uses of a seed.
    const STREAM: u64 = 0xc1a55;
}

/// Returns whether the plan's schedule is drawn from a distribution that does not depend on earlier runs.
const fn draws_at_random(plan: &Plan) -> bool {
    // Runs that record choices are those of strategies that learn from each run.
    matches!(plan.tail, Policy::Random | Policy::Pos | Policy::Pct { .. }) && !plan.choices
}

/// The schedule classes of a search's random runs.
#[derive(Debug, Default)]
pub(crate) struct ScheduleClasses {
    /// For each class, whether it occurred more than once.
    repeated: HashMap<u64, bool>,
    classified: u64,
    singletons: u64,
    /// The number of schedule points in the program's code, which all counted runs share.
    places: usize,
    classified_events: u64,
    events: u64,
}

impl ScheduleClasses {
    /// Events that are classified in any case.
    const ALLOWANCE: u64 = 1 << 16;
    /// Later, one event in this many is classified: that costs about one per cent of a search.
    const SHARE: u64 = 16;
    /// No more runs than this are counted.
    const MOST: u64 = 1 << 20;

    /// Returns which of the next runs to classify.
    pub(crate) const fn sampling(&self) -> ClassSampling {
        if self.classified >= Self::MOST {
            return ClassSampling::NONE;
        }
        let affords_all = self.classified_events <= Self::ALLOWANCE + self.events / Self::SHARE;
        ClassSampling { stride: if affords_all { 1 } else { Self::SHARE } }
    }

    /// Counts a run of this many events, with its class if it was classified. `places` is the number of schedule points
    /// that its plan had.
    pub(crate) fn add(&mut self, events: u64, class: Option<u64>, places: usize) {
        self.events += events;
        let Some(class) = class else { return };
        self.classified_events += events;
        if places != self.places {
            self.repeated.clear();
            (self.classified, self.singletons, self.places) = (0, 0, places);
        }
        self.classified += 1;
        match self.repeated.get_mut(&class) {
            None => {
                self.repeated.insert(class, false);
                self.singletons += 1;
            }
            Some(repeated) => {
                self.singletons -= u64::from(!*repeated);
                *repeated = true;
            }
        }
    }

    /// Returns the counts, beside those of conflicting pairs.
    pub(crate) fn coverage(&self, (pairs, both_orders): (usize, usize)) -> Coverage {
        let (classified, singletons) = (self.classified, self.singletons);
        Coverage { pairs, both_orders, classified, classes: self.repeated.len(), singletons }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coverage(classes: impl IntoIterator<Item = u64>) -> Coverage {
        let mut counted = ScheduleClasses::default();
        classes.into_iter().for_each(|class| counted.add(10, Some(class), 0));
        counted.coverage((0, 0))
    }

    #[test]
    fn estimate_is_share_of_classes_that_occurred_once() {
        assert_eq!(coverage([]).chance_of_new(1000), None);
        let seen = coverage([1, 2, 2, 3, 3, 3, 4]);
        assert_eq!((seen.classified, seen.classes, seen.singletons), (7, 4, 2));
        assert!((seen.chance_of_new(1).unwrap() - 2.0 / 7.0).abs() < 1e-9);
        assert_eq!(coverage([1]).chance_of_new(1000), Some(1.0));
        assert!(coverage([7; 1000]).is_bound());
        assert!((coverage([7; 1000]).chance_of_new(1).unwrap() - 0.001).abs() < 1e-9);
    }

    #[test]
    fn estimate_is_near_the_truth() {
        // Classes with geometric probabilities: the mass of those not seen is known exactly.
        const RUNS: u64 = 500;
        let (mut estimates, mut truths) = (0.0, 0.0);
        for search in 0..200 {
            let draw = |run| mix_seeds(search, run).leading_zeros();
            let seen: std::collections::HashSet<u32> = (0..RUNS).map(draw).collect();
            let unseen =
                (0..64).filter(|class| !seen.contains(class)).map(|class| 0.5_f64.powi(class as i32 + 1));
            truths += 1.0 - (1.0 - unseen.sum::<f64>()).powi(RUNS as i32);
            estimates += coverage((0..RUNS).map(|run| draw(run).into())).chance_of_new(RUNS as u32).unwrap();
        }
        assert!(estimates >= truths, "{estimates} {truths}");
        assert!(estimates <= 1.5 * truths, "{estimates} {truths}");
    }

    #[test]
    fn only_random_runs_are_classified() {
        let sampling = ScheduleClasses::default().sampling();
        let plan = |tail| Plan { tail, ..Plan::default() };
        assert!(sampling.includes(&plan(Policy::Random)));
        assert!(sampling.includes(&plan(Policy::Pct { depth: 3, steps: 10 })));
        assert!(!sampling.includes(&plan(Policy::Fair)));
        assert!(!sampling.includes(&plan(Policy::Race { first: 0, second: 1 })));
        assert!(!sampling.includes(&Plan { choices: true, ..plan(Policy::Random) }));
    }

    #[test]
    fn long_searches_classify_a_share_of_their_events() {
        let mut classes = ScheduleClasses::default();
        for seed in 0..20_000 {
            let included =
                classes.sampling().includes(&Plan { seed, tail: Policy::Random, ..Plan::default() });
            classes.add(100, included.then_some(0), 0);
        }
        let share = classes.classified_events as f64 / classes.events as f64;
        assert!((0.05..0.15).contains(&share), "{share}");
    }

    #[test]
    fn new_schedule_points_start_the_count_again() {
        let mut classes = ScheduleClasses::default();
        for (class, places) in [(1, 0), (2, 0), (1, 2), (1, 2)] {
            classes.add(1, Some(class), places);
        }
        let seen = classes.coverage((3, 2));
        assert_eq!((seen.classified, seen.classes, seen.singletons), (2, 1, 0));
        assert_eq!((seen.pairs, seen.both_orders), (3, 2));
    }
}
