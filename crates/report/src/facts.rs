//! Data of a trace that several kinds of reports use.

use crate::Names;
use std::collections::{BTreeSet, HashMap};
use unsnarl_model::{Event, Flags, Op, Side, Site, ThreadIx, Trace};

/// A lock held by a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockHold {
    pub(crate) thread: ThreadIx,
    /// The event that acquired it.
    pub(crate) first: usize,
    /// The event that released it; the number of events if none did.
    pub(crate) last: usize,
}

/// Returns which thread holds which lock from which event to which, ordered by thread and event.
pub(crate) fn holds(trace: &Trace) -> Vec<LockHold> {
    let mut held: HashMap<(ThreadIx, u64), (usize, u32)> = HashMap::new();
    let mut all = Vec::new();
    for (number, event) in trace.events.iter().enumerate() {
        let key = (event.thread, event.addr);
        let failed = event.flags.has(Flags::FAILED) || event.flags.has(Flags::TIMED_OUT);
        match event.op {
            _ if failed => {}
            Op::Lock | Op::TryLock | Op::ReadLock | Op::WriteLock | Op::TryReadLock | Op::TryWriteLock => {
                held.entry(key).or_insert((number, 0)).1 += 1;
            }
            Op::Unlock | Op::RwUnlock => {
                if let Some((first, depth)) = held.get_mut(&key) {
                    *depth -= 1;
                    if *depth == 0 {
                        all.push(LockHold { thread: event.thread, first: *first, last: number });
                        held.remove(&key);
                    }
                }
            }
            // A wait releases the mutex, and holds it again when it is over.
            Op::CondWait => {
                if let Some((first, _)) = held.remove(&(event.thread, event.value)) {
                    all.push(LockHold { thread: event.thread, first, last: number });
                }
            }
            Op::CondWake => {
                held.insert((event.thread, event.value), (number, 1));
            }
            _ => {}
        }
    }
    let last = trace.events.len();
    all.extend(held.into_iter().map(|((thread, _), (first, _))| LockHold { thread, first, last }));
    all.sort();
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
