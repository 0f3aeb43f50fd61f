//! A plain access as the target logs it beside the events, in the one run that explains a failure.

use crate::RawEvent;

/// A plain access, an allocation or a free.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawAccess {
    /// The access as its event would be.
    pub event: RawEvent,
    /// The contents after a write, see [`RawAccess::written`].
    written: u64,
    /// The number of events before it (62 bits), whether it is itself the next event, whether `written` is known.
    at: u64,
}

/// The number of accesses that a run keeps: the last ones.
pub const LOGGED_ACCESSES: u64 = 1 << 20;

const IS_EVENT: u64 = 1 << 63;
const IS_WRITTEN: u64 = 1 << 62;

impl RawAccess {
    /// Packs an access after so many events.
    #[must_use]
    #[inline]
    pub const fn new(event: RawEvent, events: u64) -> Self {
        Self { event, written: 0, at: events & !(IS_EVENT | IS_WRITTEN) }
    }

    /// Adds the contents after the write.
    #[inline]
    pub const fn set_written(&mut self, value: u64) {
        self.written = value;
        self.at |= IS_WRITTEN;
    }

    /// Notes that the access was a schedule point and is itself an event.
    #[inline]
    pub const fn set_event(&mut self) {
        self.at |= IS_EVENT;
    }

    /// Returns the contents after a write, if they are known.
    #[must_use]
    pub const fn written(&self) -> Option<u64> {
        if self.at & IS_WRITTEN == 0 { None } else { Some(self.written) }
    }

    /// Returns the number of events before it.
    #[must_use]
    pub const fn events_before(&self) -> u64 {
        self.at & !(IS_EVENT | IS_WRITTEN)
    }

    /// Returns whether the access is the event of this number.
    #[must_use]
    pub const fn is_event(&self) -> bool {
        self.at & IS_EVENT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_round_trip() {
        let mut access = RawAccess::new(RawEvent::default(), 7);
        assert_eq!((access.written(), access.events_before(), access.is_event()), (None, 7, false));
        access.set_written(0);
        access.set_event();
        assert_eq!((access.written(), access.events_before(), access.is_event()), (Some(0), 7, true));
        assert_eq!(size_of::<RawAccess>(), 48);
    }
}
