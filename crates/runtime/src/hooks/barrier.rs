//! Barriers.

use crate::{gate::Gate, thread::Pending};
use unsnarl_model::{Flags, Misuse, Op};

/// The part of glibc's layout that is used.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Barrier {
    arrived: u32,
    round: u32,
    count: u32,
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
        if (*barrier).arrived > 0 {
            runtime.state.warn(Misuse::DestroyBusy, pc, barrier as usize, "");
        }
        runtime.log(Op::BarrierDestroy, Flags::NONE, pc, barrier as usize, 0);
        0
    }

    fn pthread_barrier_wait(barrier: *mut Barrier) -> i32, |runtime, pc| {
        let object = barrier as usize;
        runtime.turn(Op::BarrierArrive, object, pc);
        let b = &mut *barrier;
        let round = b.round;
        b.arrived += 1;
        let last = b.arrived >= b.count;
        if last {
            b.arrived = 0;
            b.round = b.round.wrapping_add(1);
            // From here on no waiter needs the barrier's memory: it may be destroyed at once.
            let state = &mut runtime.state;
            let mut n = 0;
            while let Some(waiter) = state.waiting.nth(n) {
                n += 1;
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
