//! A trace rebuilt event by event equals the reordered trace.

use super::random;
use crate::static_order::{
    Builder, Granularity, OrderStrategy, Reordering, Rules, rebuild_schedule::RebuildFacts, reorder,
};
use proptest::prelude::*;
use std::collections::VecDeque;
use unsnarl_model::{Event, Misuse, Op, Outcome, Site, ThreadIx, Trace, Wait, Warning};

/// Rebuilds the new order from the events of each thread.
fn rebuilt(trace: &Trace, order: &Reordering) -> Trace {
    let mut facts = RebuildFacts::new(&trace.warnings);
    trace.events.iter().for_each(|event| facts.first_pass(event));
    facts.end_first_pass();
    let mut lanes: Vec<VecDeque<Event>> = vec![VecDeque::new(); facts.of_threads().len()];
    for &event in &trace.events {
        facts.second_pass(&event);
        lanes[event.thread.index()].push_back(event);
    }
    let mut warnings = trace.warnings.clone();
    let mut schedule_rebuilder =
        facts.schedule_rebuilder(&order.schedule, &trace.outcome.waits, &mut warnings);
    let mut events = Vec::new();
    let mut last: Option<ThreadIx> = None;
    for segment in &order.schedule.segments {
        for _ in 0..segment.points {
            let event = lanes[segment.thread.index()].pop_front().expect("an event");
            let upcoming = last.and_then(|last| lanes[last.index()].front().copied());
            events.push(schedule_rebuilder.rebuild(event, upcoming));
            last = Some(segment.thread);
        }
    }
    Trace { events, warnings, ..trace.clone() }
}

fn trace(events: Vec<Event>, warned: Vec<(u64, u16)>, waits: Vec<(u16, u64)>) -> Trace {
    let warnings = warned.into_iter().map(|(at, thread)| Warning {
        misuse: Misuse::UnlockNotHeld,
        thread: ThreadIx(thread),
        site: Site::default(),
        addr: 0,
        at,
        detail: String::new(),
    });
    let waits = waits.into_iter().map(|(thread, object)| Wait {
        thread: ThreadIx(thread),
        op: Op::Lock,
        site: Site::default(),
        addr: object * 8,
        holders: Vec::new(),
    });
    Trace {
        events,
        outcome: Outcome { waits: waits.collect(), ..Outcome::exit(0) },
        warnings: warnings.collect(),
        ..Trace::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn rebuilt_schedule_equals_reordered_trace(
        events in random::events(4, 40),
        warned in prop::collection::vec((0..45u64, 0..4u16), 0..4),
        waits in prop::collection::vec((0..4u16, 0..3u64), 0..3),
        seed in any::<u64>(),
    ) {
        // Only earlier events wake a thread.
        let events: Vec<Event> = events.into_iter().enumerate().map(|(at, event)| match event.op {
            op if op.has_waker() && at > 0 && event.value < 3 => {
                event.with_waker(Some(seed.rotate_left(at as u32) % at as u64))
            }
            op if op.has_waker() => event.with_waker(None),
            _ => event,
        }).collect();
        let trace = trace(events, warned, waits);
        let mut builder = Builder::new(Rules::default(), Granularity::Event);
        trace.events.iter().for_each(|&event| builder.push(event));
        let order = reorder(&builder.finish(), OrderStrategy::Arbitrary(seed));
        prop_assert_eq!(rebuilt(&trace, &order), order.apply(&trace));
    }
}
