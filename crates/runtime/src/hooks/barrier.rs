//! Barriers.

use crate::{gate::Gate, thread::Pending};
use unsnarl_model::{Flags, Misuse, Op};

/// glibc's layout, used as glibc does: the C library itself uses the barrier before control begins and in
/// children.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Barrier {
    /// The number of arrivals in all rounds.
    arrived: u32,
    /// The number of arrivals in complete rounds.
    complete: u32,
    /// The number of threads of a round.
    count: u32,
    shared: u32,
    /// The number of threads that have left.
    left: u32,
}

impl Barrier {
    /// glibc starts again from 0 when so many threads have arrived.
    const RESET: u32 = u32::MAX / 2;

    /// Returns the number of threads that wait for the others of the round.
    const fn waiting(&self) -> u32 {
        self.arrived.wrapping_sub(self.complete)
    }

    /// Counts an arrival; returns the number of the round and whether it is complete.
    fn arrive(&mut self) -> (u32, bool) {
        let round = self.complete / self.count.max(1);
        self.arrived = self.arrived.wrapping_add(1);
        let last = self.waiting() >= self.count;
        if last {
            // From here on no waiter needs the barrier's memory: it may be destroyed at once.
            let arrived = if self.arrived > Self::RESET - self.count { 0 } else { self.arrived };
            (self.arrived, self.complete, self.left) = (arrived, arrived, arrived);
        }
        (round, last)
    }
}

type Attr = libc::pthread_barrierattr_t;

hooks! {
    fn pthread_barrier_init(barrier: *mut Barrier, attr: *const Attr, count: u32) -> i32, |runtime, pc| {
        runtime.turn(Op::BarrierInit, barrier as usize, pc);
        let error = real::pthread_barrier_init(barrier, attr, count);
        let flags = if error == 0 { Flags::NONE } else { Flags::FAILED };
        runtime.log(Op::BarrierInit, flags, pc, barrier as usize, count.into());
        error
    }

    fn pthread_barrier_destroy(barrier: *mut Barrier) -> i32, |runtime, pc| {
        runtime.turn(Op::BarrierDestroy, barrier as usize, pc);
        if (*barrier).waiting() > 0 {
            runtime.state.warn(Misuse::DestroyBusy, pc, barrier as usize, "");
        }
        runtime.log(Op::BarrierDestroy, Flags::NONE, pc, barrier as usize, 0);
        0
    }

    fn pthread_barrier_wait(barrier: *mut Barrier) -> i32, |runtime, pc| {
        let object = barrier as usize;
        runtime.turn(Op::BarrierArrive, object, pc);
        let (round, last) = (*barrier).arrive();
        if last {
            let state = &mut runtime.state;
            let mut next = 0;
            while let Some(waiter) = state.waiting.first_from(next) {
                next = waiter.index() + 1;
                if state.thread(waiter).pending.gate == Gate::Barrier(object) {
                    state.thread(waiter).pending.gate = Gate::Open;
                    state.reclassify(waiter);
                }
            }
            state.suspended_at(object).filter(|s| s.gate == Gate::Barrier(object)).for_each(|s| s.gate = Gate::Open);
        }
        runtime.log(Op::BarrierArrive, Flags::NONE, pc, object, round.into());
        let gate = if last { Gate::Open } else { Gate::Barrier(object) };
        let pending = Pending { op: Op::BarrierLeave, pc, addr: object as u64, gate, deadline: u64::MAX, cancellable: false };
        runtime.wait_turn(pending);
        runtime.log(Op::BarrierLeave, Flags::NONE, pc, object, round.into());
        if last { libc::PTHREAD_BARRIER_SERIAL_THREAD } else { 0 }
    }
}
