//! Novelty search: return to a state that was new, and continue from there at random.
//!
//! Random schedules of a long run nearly all pass through the same few states, so they never meet a failure
//! that takes five or six switches at the right places. Fuzzers solve this for inputs by keeping and mutating
//! inputs that led to something new. Reads-from fuzzing does it for schedules (Wolff, Shi, Duck, Mathur and
//! Roychoudhury, "Greybox Fuzzing for Concurrency Testing", ASPLOS 2024); games are explored that way as well
//! (Ecoffet and others, "First return, then explore", Nature 2021).
//!
//! Here a *state* is the observable state of the program: the values of the accessed variables, and the
//! position of each thread with the results of its last few operations. Every state that no earlier run
//! visited is recorded with the prefix that leads to it. A run follows such a prefix exactly and continues at
//! random. Of several randomly drawn prefixes, it takes the one whose state was visited least often.

use crate::{
    Knowledge, RunSummary, Strategy,
    recorded_run::RecordedRun,
    seeds::RunSeeds,
    state::{mix, number_of},
};
use std::{collections::HashMap, rc::Rc};
use unsnarl_model::{Event, Fidelity, Flags, Plan, Policy, Prefix, Schedule, Site, ThreadIx};
use unsnarl_semantics::{AccessValue, Operation};

/// Prefixes that lead to new states, continued at random.
#[derive(Debug)]
pub struct Novelty {
    plan: Plan,
    seeds: RunSeeds,
    /// The number of visits of each state.
    visits: HashMap<u64, u32>,
    /// Prefixes to new states, each to be tried a few times.
    prefixes: Vec<NovelPrefix>,
    places: usize,
    draw: u64,
}

/// The first `at` steps of a run.
#[derive(Debug)]
struct NovelPrefix {
    run: Rc<RecordedRun>,
    at: usize,
    state: u64,
    tries: u32,
}

/// The number of runs continued from a state.
const TRIES: u32 = 3;
/// The number of prefixes drawn, of which the one to the rarest state is taken.
const CANDIDATES: usize = 8;
/// The maximum number of prefixes; beyond it, new ones replace old ones.
const MAX_PREFIXES: usize = 1 << 18;

impl Novelty {
    /// Builds the strategy; the seeds of its runs derive from the plan's.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let draw = plan.seed;
        Self {
            seeds: RunSeeds::new(draw),
            plan: Plan { tail: Policy::Random, choices: true, ..plan },
            visits: HashMap::new(),
            prefixes: Vec::new(),
            places: 0,
            draw,
        }
    }

    /// Draws a number below `bound`.
    fn draw(&mut self, bound: usize) -> usize {
        self.draw = self.draw.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(mix(self.draw, 1), 2) >> 16) as usize % bound
    }

    /// Picks a prefix to a rarely visited state.
    fn pick_prefix(&mut self) -> Option<Prefix> {
        if self.prefixes.is_empty() {
            return None;
        }
        let candidate: [usize; CANDIDATES] = std::array::from_fn(|_| self.draw(self.prefixes.len()));
        let rarity = |at: &usize| self.visits.get(&self.prefixes[*at].state);
        let at = candidate.into_iter().min_by_key(rarity)?;
        let novel_prefix = &mut self.prefixes[at];
        let mut schedule = Schedule::default();
        novel_prefix.run.steps[..novel_prefix.at].iter().for_each(|&thread| schedule.push(thread));
        let prefix = Prefix {
            threads: novel_prefix.run.threads.clone(),
            segments: schedule.segments,
            fidelity: Fidelity::Exact,
            ..Prefix::default()
        };
        novel_prefix.tries -= 1;
        if novel_prefix.tries == 0 {
            self.prefixes.swap_remove(at);
        }
        Some(prefix)
    }
}

impl Strategy for Novelty {
    fn name(&self) -> String {
        "novelty".into()
    }

    fn next(&mut self, known: &Knowledge) -> Option<Plan> {
        let places = known.places().spans.len();
        if self.places != places {
            // The schedule points have changed, so the prefixes lead elsewhere.
            self.places = places;
            self.prefixes.clear();
        }
        let prefix = self.pick_prefix().unwrap_or_default();
        // A prefix leads to its state only with the random numbers of the run that it is from.
        Some(Plan { prefix, seed: self.seeds.next(), ..self.plan.clone() })
    }

    fn learn(&mut self, plan: &Plan, summary: &RunSummary<'_>) {
        let Some(steps) = summary.steps.filter(|_| plan.places.spans.len() == self.places) else { return };
        let followed = plan.prefix.segments.iter().map(|segment| segment.points as usize).sum::<usize>();
        let mut run = None;
        let mut state = ObservedState::default();
        for (at, event) in steps.events.iter().enumerate() {
            let number = state.step(event, steps.site(event));
            // Steps of the followed prefix do not count as visits: otherwise the beginnings of prefixes would
            // seem the best known.
            if at < followed {
                continue;
            }
            let visits = self.visits.entry(number).or_insert(0);
            *visits += 1;
            if *visits > 1 {
                continue;
            }
            let run = run.get_or_insert_with(|| {
                let steps_of = steps.events.iter().map(|event| event.thread).collect();
                Rc::new(RecordedRun { threads: steps.threads.clone(), steps: steps_of })
            });
            let novel_prefix = NovelPrefix { run: Rc::clone(run), at: at + 1, state: number, tries: TRIES };
            if self.prefixes.len() < MAX_PREFIXES {
                self.prefixes.push(novel_prefix);
            } else {
                let victim = number as usize % MAX_PREFIXES;
                self.prefixes[victim] = novel_prefix;
            }
        }
    }
}

/// The observable state of the program.
#[derive(Debug, Default)]
struct ObservedState {
    values: HashMap<u64, u64>,
    threads: HashMap<ThreadIx, [u64; WINDOW]>,
    sum: u64,
}

/// The number of a thread's last operations that represent its position and knowledge. With more there are
/// more states than a search can cover: for the lock-free stack that takes seven preemptions, two need four
/// times the runs of one.
const WINDOW: usize = 1;

impl ObservedState {
    /// Applies one more event and returns the number of the resulting state.
    fn step(&mut self, event: &Event, site: Site) -> u64 {
        let cell = |addr: u64, value: u64| mix(mix(0x5157, addr), value);
        let thread = |ix: ThreadIx, window: &[u64; WINDOW]| {
            window.iter().fold(u64::from(ix.0) + 1, |hash, &operation| mix(hash, operation))
        };
        let before = self.values.get(&event.addr).copied();
        let facts = event.flags.0 & !(Flags::PREEMPTS | Flags::FOREIGN | Flags::MAY_BE_ORDERED).0;
        let mut operation = mix(number_of(site), facts.into());
        if event.op.object_kind().is_some() {
            operation = mix(operation, before.map_or(0, |value| value.wrapping_add(1)));
            let after = match Operation::decode(event).access().map(|access| access.value) {
                // The new value is not recorded.
                Some(AccessValue::Replaced(old)) => mix(old, operation),
                _ => event.value,
            };
            if let Some(before) = before {
                self.sum = self.sum.wrapping_sub(cell(event.addr, before));
            }
            self.sum = self.sum.wrapping_add(cell(event.addr, after));
            self.values.insert(event.addr, after);
        }
        let window = self.threads.entry(event.thread).or_default();
        self.sum = self.sum.wrapping_sub(thread(event.thread, window));
        window.rotate_left(1);
        window[WINDOW - 1] = operation;
        self.sum = self.sum.wrapping_add(thread(event.thread, window));
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunSteps;
    use unsnarl_model::{Flags, Op, Order, SiteIx, ThreadId};

    fn run(steps: &[(u16, u64)]) -> RunSteps {
        let event = |(at, &(thread, value)): (usize, &(u16, u64))| Event {
            thread: ThreadIx(thread),
            op: Op::AtomicStore,
            flags: Flags::NONE,
            order: Order::SeqCst,
            site: SiteIx(at as u32),
            context: 0,
            size: 4,
            addr: 8,
            value,
        };
        let events = steps.iter().enumerate().map(event).collect();
        RunSteps { threads: vec![ThreadId::main(); 3], events, ended: true, ..RunSteps::default() }
    }

    #[test]
    fn search_resumes_from_novel_states() {
        let known = Knowledge::default();
        let mut novelty = Novelty::new(Plan::default());
        let first = novelty.next(&known).expect("a plan");
        assert!(first.prefix.segments.is_empty());
        let steps = run(&[(0, 1), (1, 2), (0, 3)]);
        novelty.learn(&first, &RunSummary { steps: Some(&steps), ..RunSummary::default() });
        assert_eq!(novelty.prefixes.len(), 3);
        let next = novelty.next(&known).expect("a plan");
        let points: u32 = next.prefix.segments.iter().map(|segment| segment.points).sum();
        assert!((1..=3).contains(&points));
        novelty.learn(&next, &RunSummary { steps: Some(&steps), ..RunSummary::default() });
        assert_eq!(novelty.prefixes.len(), 3, "nothing new this time");
    }
}
