//! Data of a trace that several kinds of reports use.

use crate::Names;
use std::collections::BTreeSet;
use unsnarl_model::{Event, Side, Site, ThreadIx, Trace};
use unsnarl_semantics::{Hold, LockChange, Machine};

/// The events during which a thread holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldInterval {
    pub(crate) thread: ThreadIx,
    /// The lock's address.
    pub(crate) lock: u64,
    /// The event that acquired it.
    pub(crate) first: usize,
    /// The event that released it; the number of events if none did.
    pub(crate) last: usize,
}

/// Returns which thread holds which lock from which event to which, ordered by thread and event.
pub(crate) fn holds(events: &[Event]) -> Vec<HoldInterval> {
    let hold =
        |lock, hold: Hold, last| HoldInterval { thread: hold.thread, lock, first: hold.since as usize, last };
    let mut machine = Machine::default();
    let mut all = Vec::new();
    for (number, event) in events.iter().enumerate() {
        // Programs that misuse locks are explained, too.
        let _ = machine.apply_with(&machine.decode(event), &mut |change| {
            if let LockChange::Released { lock, hold: released } = change {
                all.push(hold(lock, released, number));
            }
        });
    }
    all.extend(machine.holds().map(|(lock, held)| hold(lock, held, events.len())));
    all.sort_by_key(|hold| (hold.thread, hold.first, hold.lock));
    all
}

/// Returns pairs of racing events: the last event of the first side before the first event of the second side.
pub(crate) fn races(trace: &Trace) -> Vec<(usize, usize)> {
    let mut pairs = BTreeSet::new();
    for race in &trace.races {
        let [first, second] = race.sides;
        let is = |event: &Event, side: Side| {
            event.thread == side.thread && trace.site(event) == side.site && event.op == side.op
        };
        let later = trace.events.iter().enumerate().filter(|(_, event)| is(event, second));
        for (later, _) in later {
            let earlier = trace.events[..later].iter().rposition(|event| is(event, first));
            if let Some(earlier) = earlier {
                pairs.insert((earlier, later));
                break;
            }
        }
    }
    pairs.into_iter().collect()
}

/// A place in the user's source: file, line, function.
pub(crate) type SourcePlace = (String, u32, Option<String>);

/// Returns the place of a site in the user's own source.
pub(crate) fn place(site: Site, names: &mut dyn Names) -> Option<SourcePlace> {
    let frame = names.place(site);
    let (file, line) = frame.file.zip(frame.line)?;
    (!frame.system).then_some((file, line, frame.function))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::{Flags, Op, Order, SiteIx};

    fn event(op: Op, addr: u64, value: u64) -> Event {
        Event {
            thread: ThreadIx(1),
            op,
            flags: Flags::NONE,
            order: Order::Relaxed,
            site: SiteIx(0),
            context: 0,
            size: 0,
            addr,
            value,
        }
    }

    fn held(events: &[Event]) -> Vec<(u64, usize, usize)> {
        holds(events).into_iter().map(|hold| (hold.lock, hold.first, hold.last)).collect()
    }

    #[test]
    fn wait_releases_the_mutex_and_takes_it_back() {
        const COND: u64 = 0x20;
        const MUTEX: u64 = 0x10;
        let timed_out = Event { flags: Flags::TIMED_OUT, ..event(Op::CondWake, COND, MUTEX) };
        for wake in [event(Op::CondWake, COND, MUTEX).with_waker(Some(7)), timed_out] {
            let events = [
                event(Op::Lock, MUTEX, 1),
                event(Op::CondWait, COND, MUTEX),
                wake,
                event(Op::Unlock, MUTEX, 0),
            ];
            assert_eq!(held(&events), [(MUTEX, 0, 1), (MUTEX, 2, 3)]);
            assert_eq!(held(&events[..3]), [(MUTEX, 0, 1), (MUTEX, 2, 3)]);
        }
        let recursive = [
            event(Op::Lock, MUTEX, 1),
            event(Op::Lock, MUTEX, 2),
            Event { size: 1, ..event(Op::CondWait, COND, MUTEX) },
            timed_out,
        ];
        assert_eq!(held(&recursive), [(MUTEX, 0, 4)]);
        let failed = Event { flags: Flags::FAILED, ..event(Op::CondWait, COND, MUTEX) };
        assert_eq!(held(&[event(Op::Lock, MUTEX, 1), failed]), [(MUTEX, 0, 2)]);
    }
}
