//! OpenMP's critical sections and locks, as implemented by gcc's library. The library takes them by internal
//! atomic operations that the runtime does not see: without these hooks the scheduler could not choose which
//! thread enters first. The rest of the library, such as barriers and tasks, waits by raw futexes
//! ([`crate::dispatch`]); how it orders threads is in [`super::openmp_order`].

use crate::{gate::Gate, state::Runtime, thread::Pending};
use alloc::{boxed::Box, vec::Vec};
use core::ffi::c_void;
use unsnarl_model::{Flags, Op};

/// All locks that were ever taken.
#[derive(Debug, Default)]
pub(crate) struct OpenMpLocks(Vec<OpenMpLock>);

#[derive(Debug)]
struct OpenMpLock {
    /// The program's address for it.
    object: usize,
    /// The same encoding as a spin lock: [`FREE`], or the negated id of its holder. Boxed because waiters
    /// keep its address.
    #[allow(clippy::vec_box, reason = "waiters keep its address")]
    word: Box<i32>,
    /// The number of times its holder has taken it.
    depth: u32,
}

const FREE: i32 = 1;

impl OpenMpLocks {
    fn get_or_add(&mut self, object: usize) -> &mut OpenMpLock {
        let known = self.0.iter().position(|lock| lock.object == object);
        let at = known.unwrap_or_else(|| {
            self.0.push(OpenMpLock { object, word: Box::new(FREE), depth: 0 });
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

/// Stands for the section without a name; [`ATOMIC`] stands for the one around atomic updates that the
/// processor cannot make at once.
static UNNAMED: u8 = 0;
static ATOMIC: u8 = 0;

fn object(of: &'static u8) -> usize {
    core::ptr::from_ref(of) as usize
}

/// Waits for the lock and takes it. The caller can rely on the real lock being free then.
fn acquire(runtime: &mut Runtime, object: usize, nested: bool, pc: u64) {
    let me = -(runtime.state.me().tid as i32);
    let lock = runtime.state.openmp.get_or_add(object);
    if nested && *lock.word == me {
        lock.depth += 1;
        runtime.turn(Op::Point, object, pc);
        runtime.log(Op::Point, Flags::NONE, pc, object, 0);
        return;
    }
    let gate = Gate::Spin(&raw const *lock.word);
    let addr = object as u64;
    let pending = Pending { op: Op::Lock, pc, addr, gate, deadline: u64::MAX, cancellable: false };
    runtime.wait_turn(pending);
    mark_taken(runtime, object, Op::Lock, pc);
}

fn mark_taken(runtime: &mut Runtime, object: usize, op: Op, pc: u64) {
    let me = -(runtime.state.me().tid as i32);
    let lock = runtime.state.openmp.get_or_add(object);
    *lock.word = me;
    lock.depth = 1;
    let word = &raw const *lock.word as usize;
    runtime.state.changed(word);
    runtime.log(op, Flags::NONE, pc, object, 1);
}

/// Tries to take the lock; returns 0 if it is held, else the new nesting depth.
fn try_to_acquire(runtime: &mut Runtime, object: usize, nested: bool, pc: u64) -> i32 {
    runtime.turn(Op::TryLock, object, pc);
    let me = -(runtime.state.me().tid as i32);
    let lock = runtime.state.openmp.get_or_add(object);
    if nested && *lock.word == me {
        lock.depth += 1;
        let depth = lock.depth as i32;
        runtime.log(Op::TryLock, Flags::NONE, pc, object, depth as u64);
        depth
    } else if *lock.word == FREE {
        mark_taken(runtime, object, Op::TryLock, pc);
        1
    } else {
        runtime.log(Op::TryLock, Flags::FAILED, pc, object, 0);
        0
    }
}

/// Releases the lock, and the real one by `real`.
unsafe fn release(runtime: &mut Runtime, object: usize, pc: u64, real: impl FnOnce()) {
    let last = runtime.state.openmp.get_or_add(object).depth <= 1;
    let op = if last { Op::Unlock } else { Op::Point };
    runtime.turn(op, object, pc);
    real();
    let lock = runtime.state.openmp.get_or_add(object);
    lock.depth = lock.depth.saturating_sub(1);
    if last {
        *lock.word = FREE;
        let word = &raw const *lock.word as usize;
        runtime.state.changed(word);
    }
    runtime.log(op, Flags::NONE, pc, object, 0);
}

hooks! {
    fn GOMP_critical_start() -> (), |runtime, pc| {
        acquire(runtime, object(&UNNAMED), false, pc);
        real::GOMP_critical_start()
    }

    fn GOMP_critical_end() -> (), |runtime, pc| {
        release(runtime, object(&UNNAMED), pc, || real::GOMP_critical_end())
    }

    fn GOMP_critical_name_start(name: *mut *mut c_void) -> (), |runtime, pc| {
        acquire(runtime, name as usize, false, pc);
        real::GOMP_critical_name_start(name)
    }

    fn GOMP_critical_name_end(name: *mut *mut c_void) -> (), |runtime, pc| {
        release(runtime, name as usize, pc, || real::GOMP_critical_name_end(name))
    }

    fn GOMP_atomic_start() -> (), |runtime, pc| {
        acquire(runtime, object(&ATOMIC), false, pc);
        real::GOMP_atomic_start()
    }

    fn GOMP_atomic_end() -> (), |runtime, pc| {
        release(runtime, object(&ATOMIC), pc, || real::GOMP_atomic_end())
    }

    fn omp_set_lock(lock: *mut c_void) -> (), |runtime, pc| {
        acquire(runtime, lock as usize, false, pc);
        real::omp_set_lock(lock)
    }

    fn omp_unset_lock(lock: *mut c_void) -> (), |runtime, pc| {
        release(runtime, lock as usize, pc, || real::omp_unset_lock(lock))
    }

    fn omp_test_lock(lock: *mut c_void) -> i32, |runtime, pc| {
        let depth = try_to_acquire(runtime, lock as usize, false, pc);
        if depth > 0 { real::omp_test_lock(lock) } else { 0 }
    }

    fn omp_set_nest_lock(lock: *mut c_void) -> (), |runtime, pc| {
        acquire(runtime, lock as usize, true, pc);
        real::omp_set_nest_lock(lock)
    }

    fn omp_unset_nest_lock(lock: *mut c_void) -> (), |runtime, pc| {
        release(runtime, lock as usize, pc, || real::omp_unset_nest_lock(lock))
    }

    fn omp_test_nest_lock(lock: *mut c_void) -> i32, |runtime, pc| {
        let depth = try_to_acquire(runtime, lock as usize, true, pc);
        if depth > 0 { real::omp_test_nest_lock(lock) } else { 0 }
    }
}
