//! CHESS: all schedules with no preemption, then all with one, and so on up to a bound. Musuvathi and Qadeer,
//! "Iterative Context Bounding for Systematic Testing of Multithreaded Programs", PLDI 2007, algorithm 1.
//!
//! A run follows a prefix and continues without preemptions. At every point where another thread was enabled,
//! a backtrack point is added: for the same bound if the running thread could not continue anyway, for the
//! next bound if it is preempted. A state that was reached before, with no more preemptions, is not left in
//! the same direction again (`state.rs`); waiting loops are left by fair scheduling (`fairness.rs`).
//!
//! "All schedules" refers to the schedule points of the plan. If points are derived from races, a run may show
//! a place that was no point before. The search then restarts, so its last claim holds for all of them.
//! It also refers to the plan's rule for time-outs: a run records as enabled only those that may expire by it.
//! If the rule withheld one, the claim says so.

use crate::{
    CompleteSearch, IncompleteReason, Knowledge, RunSteps, RunSummary, Strategy,
    fairness::{Fairness, bits},
    recorded_run::RecordedRun,
    state::{StateHash, mix},
};
use std::{
    collections::{HashSet, VecDeque},
    rc::Rc,
};
use unsnarl_model::{EnabledThreads, Fidelity, Plan, Policy, Prefix, Schedule, ThreadIx};

/// A systematic search up to a number of preemptions.
#[derive(Debug)]
pub struct Chess {
    plan: Plan,
    /// The maximum number of preemptions.
    bound: u32,
    /// The number of places when this pass began.
    places: Option<usize>,
    /// Unexplored backtrack points, by the number of preemptions; the last is next.
    backtrack_points: Vec<Vec<BacktrackPoint>>,
    /// The current number of preemptions.
    level: usize,
    /// Directions in which states were left.
    explored_edges: HashSet<u64>,
    /// Backtrack points being run, in the order in which they were handed out.
    in_flight: VecDeque<BacktrackPoint>,
    /// The runs of this pass.
    schedules: u64,
    /// The level up to which everything was explored, and the number of runs that took.
    done: Option<(u32, u64)>,
    /// True if backtrack points were dropped because of the bound.
    bound_reached: bool,
    /// The reason why no stronger claim is possible.
    incomplete_reason: Option<IncompleteReason>,
    /// True if a run of this pass withheld a time-out that could have expired.
    bounds_timeouts: bool,
}

/// A backtrack point: a run up to a point, and the thread that continues there.
#[derive(Clone, Debug)]
struct BacktrackPoint {
    run: Option<Rc<RecordedRun>>,
    at: usize,
    thread: ThreadIx,
    pass: u64,
}

impl Chess {
    /// Builds a search with at most `bound` preemptions.
    #[must_use]
    pub fn new(plan: Plan, bound: u32) -> Self {
        Self {
            plan: Plan { tail: Policy::Fair, choices: true, ..plan },
            bound,
            places: None,
            backtrack_points: Vec::new(),
            level: 0,
            explored_edges: HashSet::new(),
            in_flight: VecDeque::new(),
            schedules: 0,
            done: None,
            bound_reached: false,
            incomplete_reason: None,
            bounds_timeouts: false,
        }
    }

    /// Restarts, because the schedule points have changed.
    fn begin(&mut self, places: usize) {
        self.places = Some(places);
        self.backtrack_points = vec![Vec::new(); self.bound as usize + 1];
        self.level = 0;
        self.explored_edges.clear();
        (self.schedules, self.done, self.bound_reached, self.bounds_timeouts) = (0, None, false, false);
        let pass = places as u64;
        self.backtrack_points[0].push(BacktrackPoint { run: None, at: 0, thread: ThreadIx::MAIN, pass });
    }

    /// Adds the backtrack points of a run after its own branching point.
    fn add_backtrack_points(&mut self, steps: &RunSteps, backtrack_point: &BacktrackPoint) {
        let run = Rc::new(RecordedRun {
            threads: steps.threads.clone(),
            steps: steps.events.iter().map(|event| event.thread).collect(),
        });
        let pass = self.places.unwrap_or(0) as u64;
        let mut state = StateHash::default();
        let mut fairness = Fairness::new();
        let mut level = self.level;
        for (at, (event, &choice)) in steps.events.iter().zip(&steps.choices).enumerate() {
            let before = at.checked_sub(1).map(|before| steps.events[before].thread);
            let allowed = fairness.allowed(choice.can_run);
            // The run that this one branched off from covers everything up to the branching point.
            if at > backtrack_point.at || backtrack_point.run.is_none() {
                let direction = |thread| key(&state, before, thread);
                // From here on the run repeats an explored one, so its backtrack points are known.
                if !self.explored_edges.insert(direction(event.thread)) {
                    break;
                }
                for other in bits(allowed).map(|thread| ThreadIx(thread as u16)) {
                    let cost = level + usize::from(preempts(choice, before, other));
                    if other == event.thread {
                        continue;
                    }
                    if cost > self.bound as usize {
                        self.bound_reached = true;
                    } else if self.explored_edges.insert(direction(other)) {
                        self.backtrack_points[cost].push(BacktrackPoint {
                            run: Some(Rc::clone(&run)),
                            at,
                            thread: other,
                            pass,
                        });
                    }
                }
                // The tail preempts only a thread that has run for very long.
                level += usize::from(preempts(choice, before, event.thread));
            }
            let after = steps.choices.get(at + 1).map_or(0, |next| next.can_run);
            fairness.step(event.thread.index(), choice, after);
            state.step(event, steps.site(event));
        }
    }
}

fn key(state: &StateHash, before: Option<ThreadIx>, thread: ThreadIx) -> u64 {
    let before = before.map_or(0, |before| u64::from(before.0) + 1);
    mix(mix(state.number(), before), u64::from(thread.0) + 1)
}

/// Returns whether this preempts a thread that could have continued.
fn preempts(choice: EnabledThreads, before: Option<ThreadIx>, thread: ThreadIx) -> bool {
    before.is_some_and(|before| {
        before != thread && (choice.can_run & !choice.yields) >> before.index() & 1 == 1
    })
}

impl Strategy for Chess {
    fn name(&self) -> String {
        format!("chess:{}", self.bound)
    }

    fn next(&mut self, known: &Knowledge) -> Option<Plan> {
        if matches!(self.incomplete_reason, Some(IncompleteReason::Threads(_))) {
            return None;
        }
        let places = known.places().spans.len();
        if self.places != Some(places) {
            self.begin(places);
        }
        // A level starts when the one below is completely explored.
        while self.backtrack_points[self.level].is_empty() {
            if !self.in_flight.is_empty() {
                return None;
            }
            if self.incomplete_reason.is_none() {
                self.done = Some((self.level as u32, self.schedules));
            }
            if self.level == self.bound as usize {
                return None;
            }
            self.level += 1;
        }
        let backtrack_point = self.backtrack_points[self.level].pop()?;
        self.schedules += 1;
        let prefix = backtrack_point.prefix();
        self.in_flight.push_back(backtrack_point);
        Some(Plan { prefix, ..self.plan.clone() })
    }

    fn learn(&mut self, _plan: &Plan, summary: &RunSummary<'_>) {
        let (Some(backtrack_point), Some(steps)) = (self.in_flight.pop_front(), summary.steps) else {
            return;
        };
        if Some(backtrack_point.pass) != self.places.map(|places| places as u64) {
            return;
        }
        if steps.threads.len() > EnabledThreads::THREADS {
            self.incomplete_reason = Some(IncompleteReason::Threads(steps.threads.len()));
            return;
        }
        self.bounds_timeouts |= summary.withheld_timeouts;
        if !steps.ended {
            // Nothing is known beyond the cut, but backtrack points before it are still worth exploring.
            self.incomplete_reason.get_or_insert(IncompleteReason::CutOff);
        }
        self.add_backtrack_points(steps, &backtrack_point);
    }

    fn completeness(&self) -> Option<CompleteSearch> {
        let (level, schedules) = self.done?;
        let all = !self.bound_reached && self.incomplete_reason.is_none() && level == self.bound;
        let preemptions = (!all).then_some(level);
        Some(CompleteSearch { preemptions, schedules, bounds_timeouts: self.bounds_timeouts })
    }

    fn incomplete_reason(&self) -> Option<IncompleteReason> {
        self.incomplete_reason
    }
}

impl BacktrackPoint {
    fn prefix(&self) -> Prefix {
        let Some(run) = &self.run else { return Prefix::default() };
        let mut schedule = Schedule::default();
        run.steps[..self.at].iter().for_each(|&thread| schedule.push(thread));
        schedule.push(self.thread);
        Prefix {
            threads: run.threads.clone(),
            segments: schedule.segments,
            fidelity: Fidelity::Exact,
            ..Prefix::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use unsnarl_model::{Event, Flags, Op, Order, SiteIx, ThreadId};

    /// The operations of each thread in order, with their objects.
    type ThreadSteps = Vec<Vec<(Op, u64)>>;

    fn event(program: &ThreadSteps, done: &[usize], thread: usize) -> Event {
        let (op, addr) = program[thread][done[thread]];
        Event {
            thread: ThreadIx(thread as u16),
            op,
            flags: Flags::NONE,
            order: Order::SeqCst,
            site: SiteIx((thread * 100 + done[thread]) as u32),
            context: 0,
            size: 4,
            addr,
            value: 0,
        }
    }

    fn can_run(program: &ThreadSteps, done: &[usize]) -> u64 {
        (0..program.len()).filter(|&t| done[t] < program[t].len()).fold(0, |set, thread| set | 1 << thread)
    }

    /// Runs the prefix, then continues without preemptions.
    fn run(program: &ThreadSteps, prefix: &Prefix) -> RunSteps {
        let mut script: VecDeque<usize> = prefix
            .segments
            .iter()
            .flat_map(|s| std::iter::repeat_n(s.thread.index(), s.points as usize))
            .collect();
        let mut steps =
            RunSteps { threads: vec![ThreadId::main(); program.len()], ended: true, ..RunSteps::default() };
        let mut done = vec![0; program.len()];
        let mut current = 0;
        loop {
            let set = can_run(program, &done);
            if set == 0 {
                return steps;
            }
            let goes_on = set >> current & 1 == 1;
            current = script
                .pop_front()
                .unwrap_or_else(|| if goes_on { current } else { set.trailing_zeros() as usize });
            steps.events.push(event(program, &done, current));
            steps.choices.push(EnabledThreads { can_run: set, yields: 0 });
            done[current] += 1;
        }
    }

    /// Returns the final states of all runs of the search, and its claim.
    fn search(program: &ThreadSteps, bound: u32) -> (BTreeSet<u64>, Option<CompleteSearch>) {
        let mut chess = Chess::new(Plan::default(), bound);
        let mut ends = BTreeSet::new();
        while let Some(plan) = chess.next(&Knowledge::default()) {
            let steps = run(program, &plan.prefix);
            let mut state = StateHash::default();
            steps.events.iter().for_each(|event| state.step(event, steps.site(event)));
            ends.insert(state.number());
            chess.learn(&plan, &RunSummary { steps: Some(&steps), ..RunSummary::default() });
        }
        (ends, chess.completeness())
    }

    /// Returns the same by trying every order of steps.
    fn brute_force(program: &ThreadSteps, bound: u32) -> BTreeSet<u64> {
        fn go(
            program: &ThreadSteps,
            bound: u32,
            done: &mut Vec<usize>,
            events: &mut Vec<Event>,
            ends: &mut BTreeSet<u64>,
        ) {
            let set = can_run(program, done);
            if set == 0 {
                let mut state = StateHash::default();
                events.iter().for_each(|event| state.step(event, RunSteps::default().site(event)));
                ends.insert(state.number());
            }
            for thread in bits(set) {
                let preempted = events
                    .last()
                    .is_some_and(|last| last.thread.index() != thread && set >> last.thread.index() & 1 == 1);
                if preempted && bound == 0 {
                    continue;
                }
                events.push(event(program, done, thread));
                done[thread] += 1;
                go(program, bound - u32::from(preempted), done, events, ends);
                done[thread] -= 1;
                events.pop();
            }
        }
        let mut ends = BTreeSet::new();
        go(program, bound, &mut vec![0; program.len()], &mut Vec::new(), &mut ends);
        ends
    }

    #[test]
    fn unexplored_schedules_are_not_claimed() {
        let known = Knowledge::new(unsnarl_model::Places::default());
        let learnt = |steps: RunSteps| {
            let mut chess = Chess::new(Plan::default(), 2);
            let plan = chess.next(&known).expect("the first run");
            chess.learn(&plan, &RunSummary { steps: Some(&steps), ..RunSummary::default() });
            assert_eq!(chess.next(&known), None);
            (chess.completeness(), chess.incomplete_reason())
        };
        let steps = |threads, ended| RunSteps {
            threads: vec![ThreadId::main(); threads],
            ended,
            ..RunSteps::default()
        };
        let all = CompleteSearch { preemptions: None, schedules: 1, bounds_timeouts: false };
        assert_eq!(learnt(steps(1, true)), (Some(all), None));
        assert_eq!(learnt(steps(1, false)), (None, Some(IncompleteReason::CutOff)));
        assert_eq!(learnt(steps(65, true)), (None, Some(IncompleteReason::Threads(65))));
    }

    #[test]
    fn claim_names_withheld_timeouts() {
        let known = Knowledge::new(unsnarl_model::Places::default());
        for withheld_timeouts in [false, true] {
            let mut chess = Chess::new(Plan::default(), 2);
            let plan = chess.next(&known).expect("the first run");
            let steps = RunSteps { threads: vec![ThreadId::main()], ended: true, ..RunSteps::default() };
            let summary = RunSummary { steps: Some(&steps), withheld_timeouts, ..RunSummary::default() };
            chess.learn(&plan, &summary);
            assert_eq!(chess.next(&known), None);
            assert_eq!(chess.completeness().map(|claim| claim.bounds_timeouts), Some(withheld_timeouts));
        }
    }

    #[test]
    fn all_states_within_bound_are_reached() {
        let writes =
            |resources: &[u64]| resources.iter().map(|&object| (Op::Write, object * 8)).collect::<Vec<_>>();
        let reads =
            |resources: &[u64]| resources.iter().map(|&object| (Op::Read, object * 8)).collect::<Vec<_>>();
        let programs = [
            vec![writes(&[1, 1, 1]), writes(&[1, 1])],
            vec![writes(&[1, 2, 1]), writes(&[2, 1]), reads(&[1, 2])],
            vec![reads(&[1, 2]), writes(&[2, 3]), reads(&[3, 1]), writes(&[1])],
            vec![writes(&[1]), writes(&[2]), writes(&[3])],
        ];
        for program in &programs {
            for bound in 0..4 {
                assert_eq!(search(program, bound).0, brute_force(program, bound), "{program:?}, {bound}");
            }
        }
    }

    #[test]
    fn only_explored_schedules_are_claimed() {
        let program: ThreadSteps = vec![vec![(Op::Write, 8); 3]; 2];
        let completeness = |bound| search(&program, bound).1.expect("all explored");
        assert_eq!(completeness(0).preemptions, Some(0));
        assert_eq!(completeness(2).preemptions, Some(2));
        assert_eq!(completeness(5).preemptions, None, "there are no schedules with more");
        assert_eq!(completeness(5).schedules, 20, "three out of six");
    }
}
