//! The log of plain accesses, in the one run that explains a failure. Unlike an event, an access in it is no schedule
//! point, so the schedule is the same as without the log.

use crate::{access::value_at, log::Log};
use core::sync::atomic::Ordering;
use unsnarl_model::{Flags, Op, Order};
use unsnarl_race::Access;
use unsnarl_wire::{RawAccess, RawEvent};

/// The last accesses of the run, in shared memory.
pub(crate) struct AccessLog {
    entries: *mut RawAccess,
    capacity: u64,
    count: u64,
    /// True if the last access is a write that may not have been made yet.
    is_unsettled: bool,
}

impl AccessLog {
    /// Creates the log that the plan asks for.
    pub(crate) fn of(log: &Log) -> Self {
        let h = log.header();
        let entries = log.place(h.regions.accesses).cast();
        Self { entries, capacity: h.plan.accesses, count: 0, is_unsettled: false }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// Logs an access that is about to happen, or has just happened.
    pub(crate) fn note(&mut self, log: &Log, access: &Access) {
        const WORD: u64 = 8;
        self.settle();
        let (addr, size) = (access.addr as usize, access.size);
        let has_value = matches!(access.op, Op::Read | Op::Write);
        // SAFETY: the program is about to access these bytes itself, or has just done so.
        let value = if has_value { unsafe { value_at(addr, size.min(WORD)) } } else { 0 };
        let flags = if access.own_stack { Flags::OWN_STACK } else { Flags::NONE };
        let event = RawEvent::new(access.thread, access.op, flags, access.tag, access.addr, value)
            .access(size, Order::Relaxed);
        let at = self.count % self.capacity;
        // SAFETY: below the capacity, for which the controller reserved memory.
        unsafe { self.entries.add(at as usize).write(RawAccess::new(event, log.count())) };
        self.count += 1;
        self.is_unsettled = access.op == Op::Write && size <= WORD;
        log.header().accesses.store(self.count, Ordering::Release);
    }

    /// Notes that the last access, if it is this one, was a schedule point: it is the next event, too.
    pub(crate) fn mark_event(&mut self, log: &Log, op: Op, addr: usize) {
        if let Some(last) = self.last()
            && (last.event.op(), last.event.addr, last.events_before())
                == (Some(op), addr as u64, log.count())
        {
            last.set_event();
        }
    }

    /// Adds what the last write wrote. To be called before another operation begins.
    pub(crate) fn settle(&mut self) {
        if core::mem::take(&mut self.is_unsettled)
            && let Some(last) = self.last()
        {
            // SAFETY: the program has just written these bytes, and has executed nothing since that could unmap them.
            last.set_written(unsafe { value_at(last.event.addr as usize, last.event.size()) });
        }
    }

    fn last(&mut self) -> Option<&mut RawAccess> {
        let at = self.count.checked_sub(1)? % self.capacity;
        // SAFETY: it was written.
        Some(unsafe { &mut *self.entries.add(at as usize) })
    }
}
