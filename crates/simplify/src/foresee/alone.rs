//! A thread that is alone: its plain accesses are no events.
//!
//! It does what it would do in company, where it was seen. So it is followed along that, with what it finds here, up
//! to its next event or to where nobody with its past was seen to go on. From there on it may do anything unseen, and
//! anything in memory may be what it reads.

use super::{
    learned::{Learned, Next, Then},
    state::{LARGE, State},
};
use unsnarl_model::{Event, Flags, Op, ThreadIx};

/// Whether it is an event only in company.
const fn is_seen_in_company(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write | Op::Alloc | Op::Free)
}

impl Learned {
    /// A thread that is alone has done something: follows it to its next event. What comes back is its past where nobody
    /// was seen to go on, if it came there.
    pub(super) fn follow(&self, state: &mut State<'_>, thread: ThreadIx) -> Option<u64> {
        let mut unknown = None;
        for _ in 0..=self.longest {
            let past = state.threads[thread.index()].past;
            match self.then.get(&past) {
                Some(Then::Does(next)) if is_seen_in_company(next.op) => {
                    let Some(event) = self.unseen(state, thread, next) else { break };
                    state.apply_unseen(&event, next.site);
                }
                Some(Then::Does(_) | Then::Ends(_) | Then::EndsSomehow) => return None,
                Some(Then::Lives) | None => {
                    unknown = Some(past);
                    break;
                }
            }
        }
        state.alone(thread.index());
        unknown
    }

    /// An access that is no event here.
    fn unseen(&self, state: &State<'_>, thread: ThreadIx, next: &Next) -> Option<Event> {
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
    pub(super) fn access(&self, state: &State<'_>, event: &Event) -> Option<Event> {
        let past = state.threads[event.thread.index()].past;
        match event.op {
            Op::Read if state.tells_value(event) => {
                Some(Event { value: self.value(state, past, event)?, ..*event })
            }
            Op::Read | Op::Write => Some(*event),
            Op::Alloc | Op::Free => {
                let came = self.came(state, past, event)??;
                let flags = event.flags | came.flags;
                Some(Event { flags, addr: came.addr, size: came.size, value: came.value, ..*event })
            }
            _ => None,
        }
    }
}
