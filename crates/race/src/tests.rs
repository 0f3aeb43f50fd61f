//! The detector on small runs, and compared with a brute-force version on random ones.

use crate::pairs;
use alloc::{collections::BTreeSet, vec, vec::Vec};
use proptest::prelude::*;
use unsnarl_model::{ConflictKind, Event, Flags, Op, Order, SiteIx, ThreadIx};

fn event(thread: u16, op: Op, addr: u64, value: u64) -> Event {
    Event {
        thread: ThreadIx(thread),
        op,
        flags: Flags::NONE,
        order: Order::Relaxed,
        site: SiteIx(0),
        context: 0,
        size: if op.object_kind() == Some(unsnarl_model::ObjectKind::Memory) { 4 } else { 0 },
        addr,
        value,
    }
}

fn atomic(thread: u16, op: Op, order: Order) -> Event {
    Event { order, ..event(thread, op, 0x50, 0) }
}

fn races(events: &[Event]) -> Vec<(u64, u64)> {
    of_kind(events, ConflictKind::Race)
}

fn of_kind(events: &[Event], kind: ConflictKind) -> Vec<(u64, u64)> {
    pairs(events).into_iter().filter(|pair| pair.kind == kind).map(|pair| (pair.first, pair.second)).collect()
}

const X: u64 = 0x1000;
const M: u64 = 0x2000;

/// Main creates threads 1 and 2.
fn two_threads() -> Vec<Event> {
    vec![
        event(0, Op::Create, 0, 1),
        event(0, Op::Create, 0, 2),
        event(1, Op::Start, 0, 0),
        event(2, Op::Start, 0, 0),
    ]
}

fn with(more: &[Event]) -> Vec<Event> {
    let mut events = two_threads();
    events.extend_from_slice(more);
    events
}

#[test]
fn unordered_writes_race_and_reads_do_not() {
    assert_eq!(races(&with(&[event(1, Op::Write, X, 0), event(2, Op::Write, X, 0)])), [(4, 5)]);
    assert_eq!(races(&with(&[event(1, Op::Read, X, 0), event(2, Op::Read, X, 0)])), []);
    assert_eq!(races(&with(&[event(1, Op::Read, X, 0), event(2, Op::Write, X, 0)])), [(4, 5)]);
}

#[test]
fn neighbouring_bytes_do_not_race() {
    assert_eq!(races(&with(&[event(1, Op::Write, X, 0), event(2, Op::Write, X + 4, 0)])), []);
    assert_eq!(races(&with(&[event(1, Op::Write, X, 0), event(2, Op::Write, X + 3, 0)])), [(4, 5)]);
}

#[test]
fn accesses_at_end_of_address_space_race() {
    let last = u64::MAX - 1;
    let write = |thread| Event { size: 8, ..event(thread, Op::Write, last, 0) };
    assert_eq!(races(&with(&[write(1), write(2)])), [(4, 5)]);
}

#[test]
fn lock_orders_critical_sections() {
    let section = |t| [event(t, Op::Lock, M, 1), event(t, Op::Write, X, 0), event(t, Op::Unlock, M, 0)];
    assert_eq!(races(&with(&[section(1), section(2)].concat())), []);
}

#[test]
fn create_and_join_order_accesses() {
    let events = [
        event(0, Op::Write, X, 0),
        event(0, Op::Create, 0, 1),
        event(1, Op::Start, 0, 0),
        event(1, Op::Write, X, 0),
        event(1, Op::End, 0, 0),
        event(0, Op::Join, 0, 1),
        event(0, Op::Write, X, 0),
    ];
    assert_eq!(races(&events), []);
    assert_eq!(races(&[&events[..5], &events[6..]].concat()), [(3, 5)], "without the join");
}

#[test]
fn release_acquire_orders_and_relaxed_does_not() {
    let flag = |release, acquire| {
        with(&[
            event(1, Op::Write, X, 0),
            atomic(1, Op::AtomicStore, release),
            atomic(2, Op::AtomicLoad, acquire),
            event(2, Op::Read, X, 0),
        ])
    };
    assert_eq!(races(&flag(Order::Release, Order::Acquire)), []);
    assert_eq!(races(&flag(Order::SeqCst, Order::SeqCst)), []);
    assert_eq!(races(&flag(Order::Relaxed, Order::Acquire)), [(4, 7)]);
    assert_eq!(races(&flag(Order::Release, Order::Relaxed)), [(4, 7)]);
}

#[test]
fn rmw_continues_release_sequence_and_store_ends_it() {
    let through = |op, order| {
        with(&[
            event(1, Op::Write, X, 0),
            atomic(1, Op::AtomicStore, Order::Release),
            atomic(0, op, order),
            atomic(2, Op::AtomicLoad, Order::Acquire),
            event(2, Op::Read, X, 0),
        ])
    };
    assert_eq!(races(&through(Op::AtomicRmw, Order::Relaxed)), []);
    assert_eq!(races(&through(Op::AtomicStore, Order::Relaxed)), [(4, 8)]);
}

#[test]
fn fences_make_relaxed_operations_synchronise() {
    let events = with(&[
        event(1, Op::Write, X, 0),
        atomic(1, Op::Fence, Order::Release),
        atomic(1, Op::AtomicStore, Order::Relaxed),
        atomic(2, Op::AtomicLoad, Order::Relaxed),
        atomic(2, Op::Fence, Order::Acquire),
        event(2, Op::Read, X, 0),
    ]);
    assert_eq!(races(&events), []);
    let unfenced = [&events[..8], &events[9..]].concat();
    assert_eq!(races(&unfenced), [(4, 8)], "without the acquire fence");
}

#[test]
fn atomics_race_with_plain_accesses_only() {
    let plain = Event { addr: 0x50, ..event(2, Op::Write, 0, 0) };
    let store = atomic(1, Op::AtomicStore, Order::Relaxed);
    assert_eq!(races(&with(&[store, atomic(2, Op::AtomicStore, Order::Relaxed)])), []);
    assert_eq!(races(&with(&[store, plain])), [(4, 5)]);
}

#[test]
fn cancelled_and_failed_operations_order_nothing() {
    let write = event(1, Op::Write, X, 0);
    let post = event(1, Op::SemPost, 0x3000, 1);
    let wait = event(2, Op::SemWait, 0x3000, 0);
    let read = event(2, Op::Read, X, 0);
    assert_eq!(races(&with(&[write, post, wait, read])), []);
    let cancelled = Event { flags: Flags::CANCELLED, ..wait };
    assert_eq!(races(&with(&[write, post, cancelled, read])), [(4, 7)]);
    // A wait without the mutex fails, and does not release it.
    let refused = Event { flags: Flags::FAILED, ..event(1, Op::CondWait, 0x4000, M) };
    let lock = event(2, Op::Lock, M, 1);
    assert_eq!(races(&with(&[write, refused, lock, read])), [(4, 7)]);
}

#[test]
fn recursive_mutex_that_stays_held_protects_during_a_wait() {
    let wait = Event { size: 1, ..event(1, Op::CondWait, 0x4000, M) };
    let events = [
        event(1, Op::Lock, M, 1),
        event(1, Op::Lock, M, 2),
        wait,
        Event { flags: Flags::TIMED_OUT, ..event(1, Op::CondWake, 0x4000, M) },
        event(1, Op::Unlock, M, 1),
        event(1, Op::Write, X, 0),
        event(1, Op::Unlock, M, 0),
        event(2, Op::Lock, M, 1),
        event(2, Op::Write, X, 0),
    ];
    assert_eq!(races(&with(&events)), []);
    assert_eq!(of_kind(&with(&events), ConflictKind::Hidden), []);
}

#[test]
fn signal_orders_woken_thread_and_barrier_orders_rounds() {
    let handed_over = with(&[
        event(2, Op::Lock, M, 1),
        event(2, Op::CondWait, 0x3000, M),
        event(1, Op::Write, X, 0),
        event(1, Op::Signal, 0x3000, 1),
        event(2, Op::CondWake, 0x3000, M).with_waker(Some(7)),
        event(2, Op::Read, X, 0),
    ]);
    assert_eq!(races(&handed_over), []);
    let round = with(&[
        event(1, Op::Write, X, 0),
        event(1, Op::BarrierArrive, 0x4000, 0),
        event(2, Op::BarrierArrive, 0x4000, 0),
        event(2, Op::BarrierLeave, 0x4000, 0),
        event(2, Op::Read, X, 0),
    ]);
    assert_eq!(races(&round), []);
}

#[test]
fn static_initialisation_is_ordered_by_its_guard() {
    let guard = 0x50;
    let events = with(&[
        event(1, Op::OnceBegin, guard, 0),
        event(1, Op::Write, X, 0),
        event(1, Op::OnceEnd, guard, 0),
        atomic(2, Op::AtomicLoad, Order::Acquire),
        event(2, Op::Read, X, 0),
    ]);
    assert_eq!(races(&events), []);
}

#[test]
fn reused_heap_block_is_new_memory() {
    let block = |t, op| Event { size: 16, ..event(t, op, X, 0) };
    let write = |t| event(t, Op::Write, X + 8, 0);
    assert_eq!(races(&with(&[write(1), block(2, Op::Alloc), write(2)])), []);
    assert_eq!(races(&with(&[write(1), block(1, Op::Free), write(2)])), []);
    assert_eq!(
        races(&with(&[write(1), event(2, Op::Alloc, X + 64, 0), write(2)])),
        [(4, 6)],
        "another block"
    );
}

#[test]
fn reused_stack_is_new_memory() {
    let own = |t| Event { flags: Flags::OWN_STACK, ..event(t, Op::Write, X, 0) };
    assert_eq!(races(&with(&[own(1), own(2)])), []);
    assert_eq!(races(&with(&[own(1), event(2, Op::Write, X, 0)])), [(4, 5)], "one shares its stack");
}

#[test]
fn race_hidden_by_critical_section_order_is_found() {
    let hidden = with(&[
        event(1, Op::Write, X, 0),
        event(1, Op::Lock, M, 1),
        event(1, Op::Unlock, M, 0),
        event(2, Op::Lock, M, 1),
        event(2, Op::Unlock, M, 0),
        event(2, Op::Write, X, 0),
    ]);
    assert_eq!(races(&hidden), []);
    assert_eq!(of_kind(&hidden, ConflictKind::Hidden), [(4, 9)]);
}

#[test]
fn common_lock_prevents_hidden_race_but_read_lock_does_not() {
    let section = |t, take, give| {
        [event(t, take, M, 1), event(t, Op::Write, X, 0), event(t, give, M, u64::from(take == Op::WriteLock))]
    };
    let locked = with(&[section(1, Op::Lock, Op::Unlock), section(2, Op::Lock, Op::Unlock)].concat());
    assert_eq!(of_kind(&locked, ConflictKind::Hidden), []);
    let readers =
        with(&[section(1, Op::ReadLock, Op::RwUnlock), section(2, Op::ReadLock, Op::RwUnlock)].concat());
    assert_eq!(races(&readers), [(5, 8)], "two readers that write");
    let one_writer =
        with(&[section(1, Op::WriteLock, Op::RwUnlock), section(2, Op::ReadLock, Op::RwUnlock)].concat());
    assert_eq!(pairs(&one_writer).iter().filter(|pair| pair.kind != ConflictKind::Contention).count(), 0);
}

#[test]
fn acquiring_same_lock_is_contention() {
    let section = |t| [event(t, Op::Lock, M, 1), event(t, Op::Unlock, M, 0)];
    let events = with(&[section(1), section(2)].concat());
    assert_eq!(of_kind(&events, ConflictKind::Contention), [(4, 6)]);
    let ordered = [
        event(0, Op::Lock, M, 1),
        event(0, Op::Unlock, M, 0),
        event(0, Op::Create, 0, 1),
        event(1, Op::Start, 0, 0),
        event(1, Op::Lock, M, 1),
    ];
    assert_eq!(of_kind(&ordered, ConflictKind::Contention), [], "one comes first in any case");
}

#[test]
fn atomic_updates_contend_and_loads_do_not() {
    let load = |t| atomic(t, Op::AtomicLoad, Order::SeqCst);
    let update = |t| atomic(t, Op::AtomicRmw, Order::SeqCst);
    assert_eq!(of_kind(&with(&[update(1), update(2)]), ConflictKind::Contention), [(4, 5)]);
    assert_eq!(of_kind(&with(&[load(1), load(2)]), ConflictKind::Contention), []);
    let failed = Event { flags: Flags::FAILED, ..atomic(1, Op::AtomicCas, Order::SeqCst) };
    assert_eq!(of_kind(&with(&[failed, load(2)]), ConflictKind::Contention), [], "it only read");
}

#[test]
fn overflowing_shadow_words_remember_all_threads() {
    let mut events: Vec<Event> = (1..12).map(|t| event(0, Op::Create, 0, t)).collect();
    events.extend((1..12).map(|t| event(t, Op::Start, 0, 0)));
    events.extend((1..11).map(|t| event(t, Op::Read, X, 0)));
    events.push(event(11, Op::Write, X, 0));
    assert_eq!(races(&events).len(), 10);
}

#[test]
fn accesses_possibly_ordered_by_uninstrumented_code_do_not_race() {
    let foreign = |t, op, order| Event { flags: Flags::FOREIGN, ..atomic(t, op, order) };
    let around = |between: &[Event]| {
        let events = [&[event(1, Op::Write, X, 0)], between, &[event(2, Op::Write, X, 0)]].concat();
        races(&with(&events)).len()
    };
    // The mutex inside a wait on a condition: its word differs from what instrumented code stored.
    assert_eq!(around(&[foreign(2, Op::AtomicCas, Order::Acquire)]), 0);
    assert_eq!(around(&[foreign(2, Op::AtomicCas, Order::Relaxed)]), 1, "it acquires nothing");
    let fence = Event { size: 0, ..event(2, Op::Fence, 0, 0) };
    let fence = Event { order: Order::Acquire, ..fence };
    assert_eq!(around(&[foreign(2, Op::AtomicLoad, Order::Relaxed), fence]), 0);
    assert_eq!(around(&[fence]), 1);
    assert_eq!(around(&[foreign(2, Op::AtomicStore, Order::SeqCst)]), 1, "a store learns nothing");
    // Once others are known to write there, they may also write back the old value.
    let cas = |t| atomic(t, Op::AtomicCas, Order::Acquire);
    let relaxed = foreign(1, Op::AtomicLoad, Order::Relaxed);
    assert_eq!(around(&[relaxed, cas(2)]), 1, "a first unexpected value proves nothing");
    assert_eq!(around(&[relaxed, relaxed, cas(2)]), 0);
    // A thread that returns from a futex has executed other code in between.
    let failed = Event { flags: Flags::FAILED, ..event(2, Op::FutexWait, M, 0) };
    assert_eq!(around(&[event(2, Op::FutexWake, M, 0)]), 0);
    assert_eq!(around(&[failed]), 0);
    assert_eq!(around(&[event(1, Op::FutexWake, M, 0)]), 1, "the other thread is not ordered by that");
    // Nor is it by a call of a function that is known to synchronise.
    let after_call = |t, op, addr| Event { flags: Flags::MAY_BE_ORDERED, ..event(t, op, addr, 0) };
    assert_eq!(around(&[after_call(2, Op::Read, X + 64)]), 0);
    assert_eq!(around(&[after_call(2, Op::Lock, M)]), 0);
    assert_eq!(around(&[after_call(1, Op::Read, X + 64)]), 1);
    let directly = with(&[event(1, Op::Write, X, 0), after_call(2, Op::Write, X)]);
    assert_eq!(races(&directly), []);
}

#[test]
fn adjacent_accesses_race_despite_earlier_uninstrumented_code() {
    let wake = |t| event(t, Op::FutexWake, M, 0);
    let events = with(&[wake(1), wake(2), event(1, Op::Write, X, 0), event(2, Op::Write, X, 0), wake(1)]);
    assert_eq!(races(&events), [(6, 7)]);
}

/// Random runs of three threads over two locks and two variables, with well-formed lock operations; sometimes
/// a futex, by which a thread may have been ordered after all others.
fn runs() -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec((0u16..3, 0u8..16, 0u64..2), 1..40).prop_map(|steps| {
        let mut events = two_threads();
        let mut held: [Option<u16>; 2] = [None; 2];
        for (thread, operation, which) in steps {
            let lock = which as usize;
            // One in sixteen is the futex.
            match if operation == 15 { 4 } else { operation % 4 } {
                0 if held[lock].is_none() => {
                    held[lock] = Some(thread);
                    events.push(event(thread, Op::Lock, M + which, 1));
                }
                1 if held[lock] == Some(thread) => {
                    held[lock] = None;
                    events.push(event(thread, Op::Unlock, M + which, 0));
                }
                2 => events.push(event(thread, Op::Read, X + 8 * which, 0)),
                3 => events.push(event(thread, Op::Write, X + 8 * which, 0)),
                4 => events.push(event(thread, Op::FutexWake, 0x3000 + u64::from(thread), 0)),
                _ => {}
            }
        }
        events
    })
}

/// The definition: happens-before is reachability over program order, creation and, if `locks`, unlock to
/// lock and anything to a futex. Accesses protected by a common lock do not race.
fn racing_variables_by_definition(events: &[Event], locks: bool) -> BTreeSet<u64> {
    let n = events.len();
    let mut before = vec![vec![false; n]; n];
    for b in 0..n {
        for a in 0..b {
            let (ea, eb) = (&events[a], &events[b]);
            before[a][b] = ea.thread == eb.thread
                || (ea.op == Op::Create && eb.op == Op::Start && ea.value == u64::from(eb.thread.0))
                || (locks && ea.op == Op::Unlock && eb.op == Op::Lock && ea.addr == eb.addr)
                || (locks && eb.op == Op::FutexWake);
        }
    }
    for k in 0..n {
        for a in 0..k {
            for b in k + 1..n {
                before[a][b] |= before[a][k] && before[k][b];
            }
        }
    }
    let held = |at: usize| {
        let mut held = BTreeSet::new();
        for event in events[..at].iter().filter(|event| event.thread == events[at].thread) {
            match event.op {
                Op::Lock => drop(held.insert(event.addr)),
                Op::Unlock => drop(held.remove(&event.addr)),
                _ => {}
            }
        }
        held
    };
    let accesses = |e: &Event| matches!(e.op, Op::Read | Op::Write);
    let mut racing = BTreeSet::new();
    for b in 0..n {
        for a in 0..b {
            let (ea, eb) = (&events[a], &events[b]);
            let conflict = accesses(ea) && accesses(eb) && ea.addr == eb.addr && ea.thread != eb.thread;
            let open = !before[a][b] && held(a).is_disjoint(&held(b));
            if conflict && (ea.op == Op::Write || eb.op == Op::Write) && open {
                racing.insert(ea.addr);
            }
        }
    }
    racing
}

proptest! {
    /// Forgetting accesses loses pairs but never a racing variable, and every reported pair is a race. This
    /// includes threads whose times are not stored inline in the clocks.
    #[test]
    fn detector_agrees_with_definition(mut events in runs(), far in any::<bool>()) {
        let number = |thread: u64| if far && thread == 2 { 9 } else { thread };
        for event in &mut events {
            event.thread = ThreadIx(number(event.thread.0.into()) as u16);
            if event.op == Op::Create {
                event.value = number(event.value);
            }
        }
        let variables = |found: Vec<(u64, u64)>| -> BTreeSet<u64> {
            found.into_iter().map(|(_, second)| events[second as usize].addr).collect()
        };
        let racing = variables(races(&events));
        prop_assert_eq!(&racing, &racing_variables_by_definition(&events, true));
        let mut open = variables(of_kind(&events, ConflictKind::Hidden));
        open.extend(racing);
        prop_assert_eq!(open, racing_variables_by_definition(&events, false));
    }
}
