//! Random events of all kinds, on few objects, so that they conflict.

use proptest::prelude::*;
use unsnarl_model::{Event, Flags, Op, Order, SiteIx, ThreadIx};

/// Up to `most` events of this many threads. They need not be the events of any program.
pub(super) fn events(threads: u16, most: usize) -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(threads), 1..=most)
}

fn event(threads: u16) -> impl Strategy<Value = Event> {
    let op = prop_oneof![
        3 => prop::sample::select(vec![Op::Read, Op::Write]),
        2 => prop::sample::select(vec![Op::Lock, Op::Unlock, Op::AtomicCas, Op::AtomicLoad]),
        2 => prop::sample::select(Op::ALL.to_vec()),
    ];
    let flags = prop_oneof![4 => Just(Flags::NONE), 1 => Just(Flags::FAILED), 1 => Just(Flags::TIMED_OUT)];
    (0..threads, op, flags, 0..3u64, 0..4u64, 0..3u32, any::<prop::sample::Index>()).prop_map(
        move |(thread, op, flags, object, value, site, place)| {
            let (addr, size) = match op {
                Op::Read | Op::Write | Op::Alloc | Op::Free => {
                    let places =
                        [(0, 1), (3, 2), (4, 4), (0, 8), (6, 4), (8, 8), (1, 300), (16, 256), (140, 20)];
                    places[place.index(places.len())]
                }
                Op::AtomicLoad | Op::AtomicStore | Op::AtomicRmw | Op::AtomicCas => (object * 4, 4),
                _ => (object * 8, 0),
            };
            Event {
                thread: ThreadIx(thread),
                op,
                flags,
                order: Order::SeqCst,
                site: SiteIx(site),
                context: 0,
                size,
                addr,
                value,
            }
        },
    )
}

/// Any combination of rules.
pub(super) fn rules() -> impl Strategy<Value = crate::static_order::Rules> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(environment, hides_sole_accesses, end)| {
        crate::static_order::Rules { environment, hides_sole_accesses, end }
    })
}
