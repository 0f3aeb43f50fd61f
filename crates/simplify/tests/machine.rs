//! The machine of `unsnarl-semantics`, compared with the simulator of these tests, which is written independently; and
//! the dependence relation, compared with what the machine does.

mod toy;

use proptest::prelude::*;
use toy::{MAX_EVENTS, programs};
use unsnarl_model::{EnabledThreads, Event, Plan, Policy, RunLimits, Trace};
use unsnarl_semantics::{
    Enabled, Machine, Step, Touch, depend,
    dependence::{Relation, Rules},
};

fn record(program: &toy::Program, seed: u64) -> (Trace, Vec<EnabledThreads>) {
    let limits = RunLimits { events: MAX_EVENTS, ..RunLimits::default() };
    program.run_with_choices(&Plan { tail: Policy::Random, seed, limits, ..Plan::default() })
}

/// The next event of each thread at each event of a trace, as numbers.
fn pending(events: &[Event], threads: usize) -> Vec<Vec<usize>> {
    let mut next = vec![None; threads];
    let mut all: Vec<Vec<usize>> = events
        .iter()
        .enumerate()
        .rev()
        .map(|(number, event)| {
            next[event.thread.index()] = Some(number);
            next.iter().flatten().copied().collect()
        })
        .collect();
    all.reverse();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn machine_agrees_with_an_independent_simulator(program in programs::random(), seed in any::<u64>()) {
        let (trace, choices) = record(&program, seed);
        let mut machine = Machine::before(&trace.events);
        let pending = pending(&trace.events, trace.threads.len());
        for (at, event) in trace.events.iter().enumerate() {
            for &next in &pending[at] {
                let step = machine.decode(&trace.events[next]);
                let bit = 1 << step.thread.index();
                let (runs, by_time) = (choices[at].can_run & bit != 0, choices[at].yields & bit != 0);
                let enabled = machine.enabled(&step);
                let agree = match enabled {
                    Enabled::Yes => runs && !by_time,
                    Enabled::IfTimePasses => by_time,
                    // A timed wait was ended by a signal later.
                    Enabled::No { .. } => !runs || by_time,
                    Enabled::Unknown => false,
                };
                prop_assert!(agree, "before event {at}: {step:?} {enabled:?}, can run: {runs}, by time: {by_time}");
            }
            let step = machine.decode(event);
            // The simulated programs release locks that other threads hold.
            let _ = machine.apply(&step);
        }
    }

    #[test]
    fn independent_operations_commute(program in programs::random(), seed in any::<u64>()) {
        let (trace, _) = record(&program, seed);
        let rules = Rules { end: false, ..Rules::default() };
        let mut machine = Machine::before(&trace.events);
        let pending = pending(&trace.events, trace.threads.len());
        let touches_of: Vec<Vec<Touch>> = {
            let mut relation = Relation::new(rules);
            trace.events.iter().map(|event| {
                let mut touches = Vec::new();
                relation.touches(event, &mut touches);
                touches
            }).collect()
        };
        for (at, event) in trace.events.iter().enumerate() {
            let now = machine.events();
            for &first in &pending[at] {
                for &second in pending[at].iter().filter(|&&second| second > first) {
                    let a = Step::decode(&trace.events[first], now);
                    let b = Step::decode(&trace.events[second], now + 1);
                    if machine.enabled(&a) != Enabled::Yes
                        || machine.enabled(&b) != Enabled::Yes
                        || depend((a.thread, &touches_of[first]), (b.thread, &touches_of[second]))
                    {
                        continue;
                    }
                    let mut ends = Vec::new();
                    for (one, other) in [(&a, &b), (&b, &a)] {
                        let mut machine = machine.clone();
                        let done = machine.apply(one);
                        prop_assert_eq!(machine.enabled(other), Enabled::Yes, "{:?} after {:?}", other, one);
                        let done_too = machine.apply(other);
                        let results = if one.thread == a.thread { [done, done_too] } else { [done_too, done] };
                        ends.push((results, machine));
                    }
                    prop_assert!(ends[0] == ends[1], "{a:?} and {b:?} are independent and do not commute");
                }
            }
            machine.follow(event);
        }
    }
}
