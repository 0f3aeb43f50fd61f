//! A thread that is alone: its plain accesses are no events.
//!
//! It does what it would do in company, where it was seen. So it is followed along that, with what it finds here, up
//! to its next event or to where nobody with its past was seen to go on. From there on it may do anything unseen, and
//! anything in memory may be what it reads.

use super::{
    observations::{Continuation, NextOperation, Observations},
    state::{LARGE, SimulatedState},
};
use unsnarl_model::{Event, Flags, Op, ThreadIx};

/// Whether it is an event only in company.
const fn is_event_only_with_others(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write | Op::Alloc | Op::Free)
}

impl Observations {
    /// A thread that is alone has done something: follows it to its next event. What comes back is its past where nobody
    /// was seen to go on, if it came there.
    pub(super) fn follow(&self, state: &mut SimulatedState<'_>, thread: ThreadIx) -> Option<u64> {
        let mut unknown = None;
        for _ in 0..=self.longest {
            let past = state.threads[thread.index()].past;
            match self.continuations.get(&past) {
                Some(Continuation::Operation(next)) if is_event_only_with_others(next.op) => {
                    let Some(event) = self.unseen(state, thread, next) else { break };
                    state.apply_unseen(&event, next.site);
                }
                Some(Continuation::Operation(_) | Continuation::Ends(_) | Continuation::EndsSomehow) => {
                    return None;
                }
                Some(Continuation::Lives) | None => {
                    unknown = Some(past);
                    break;
                }
            }
        }
        state.sole_runner(thread.index());
        unknown
    }

    /// An access that is no event here.
    fn unseen(&self, state: &SimulatedState<'_>, thread: ThreadIx, next: &NextOperation) -> Option<Event> {
        let event = Event {
            thread,
            op: next.op,
            flags: Flags(next.flags.0 & (Flags::OWN_STACK | Flags::UNDETERMINED).0),
            order: next.order,
            site: *self.site_of.get(&next.site)?,
            size: next.size,
            addr: next.addr,
            value: 0,
        };
        let known = !next.only_waited && !next.dies && next.size <= LARGE;
        known.then_some(())?;
        self.access(state, &event)
    }

    /// What a plain access finds, and where memory is given or taken; none if that is not known.
    pub(super) fn access(&self, state: &SimulatedState<'_>, event: &Event) -> Option<Event> {
        let past = state.threads[event.thread.index()].past;
        match event.op {
            Op::Read if state.reveals_value(event) => {
                Some(Event { value: self.value(state, past, event)?, ..*event })
            }
            Op::Read | Op::Write => Some(*event),
            Op::Alloc | Op::Free => {
                let results = self.results(state, past, event)??;
                let flags = event.flags | results.flags;
                Some(Event { flags, addr: results.addr, size: results.size, value: results.value, ..*event })
            }
            _ => None,
        }
    }
}
