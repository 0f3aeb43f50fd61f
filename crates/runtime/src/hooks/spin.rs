//! Spin locks. glibc stores 1 for a free lock; a held one stores its owner, negated.

use super::ids;
use crate::{gate::Gate, thread::Pending};
use unsnarl_model::{Flags, Misuse, Op};

const FREE: i32 = 1;
/// The runtime stores the owner of a held lock. The C library, which serves calls before control begins and in
/// children, does not: then the lock is below [`FREE`], and its owner is unknown.
fn is_held_by(value: i32, thread: u32) -> bool {
    value == -(thread as i32) || (value < FREE && value > -ids::PROCESS)
}

hooks! {
    fn pthread_spin_init(lock: *mut i32, shared: i32) -> i32, |runtime, pc| {
        runtime.turn(Op::LockInit, lock as usize, pc);
        *lock = FREE;
        runtime.log(Op::LockInit, Flags::NONE, pc, lock as usize, 0);
        0
    }

    fn pthread_spin_destroy(lock: *mut i32) -> i32, |runtime, pc| {
        runtime.turn(Op::LockDestroy, lock as usize, pc);
        if *lock != FREE {
            runtime.state.warn(Misuse::DestroyBusy, pc, lock as usize, "");
        }
        runtime.log(Op::LockDestroy, Flags::NONE, pc, lock as usize, 0);
        0
    }

    fn pthread_spin_lock(lock: *mut i32) -> i32, |runtime, pc| {
        if *lock == -(runtime.state.me().tid as i32) {
            runtime.state.warn(Misuse::Relock, pc, lock as usize, "");
        }
        let gate = Gate::Spin(lock);
        runtime.wait_turn(Pending { op: Op::Lock, pc, addr: lock as u64, gate, deadline: u64::MAX, cancellable: false });
        *lock = -(runtime.state.me().tid as i32);
        runtime.state.changed(lock as usize);
        runtime.log(Op::Lock, Flags::NONE, pc, lock as usize, 1);
        0
    }

    fn pthread_spin_trylock(lock: *mut i32) -> i32, |runtime, pc| {
        runtime.turn(Op::TryLock, lock as usize, pc);
        if *lock != FREE {
            runtime.log(Op::TryLock, Flags::FAILED, pc, lock as usize, 0);
            return libc::EBUSY;
        }
        *lock = -(runtime.state.me().tid as i32);
        runtime.state.changed(lock as usize);
        runtime.log(Op::TryLock, Flags::NONE, pc, lock as usize, 1);
        0
    }

    fn pthread_spin_unlock(lock: *mut i32) -> i32, |runtime, pc| {
        runtime.turn(Op::Unlock, lock as usize, pc);
        if !is_held_by(*lock, runtime.state.me().tid) {
            runtime.state.warn(Misuse::UnlockNotHeld, pc, lock as usize, "");
        }
        *lock = FREE;
        runtime.state.changed(lock as usize);
        runtime.log(Op::Unlock, Flags::NONE, pc, lock as usize, 0);
        0
    }
}
