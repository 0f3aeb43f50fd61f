//! `syscall`: futexes, on which Rust's standard library and C++'s atomic waits are built, and the few other
//! calls that must not reach the kernel.

use super::{ids, kill};
use crate::{
    clock::duration,
    gate::Gate,
    state::{Runtime, State},
    stream_identity, sys,
    thread::Pending,
    turn::Turn,
};
use alloc::vec::Vec;
use core::arch::naked_asm;
use unsnarl_model::{Flags, Misuse, Op, ThreadIx};

/// `long syscall(long number, ...)`: the number and up to six arguments, the last on the stack. The return
/// address is passed as one more argument behind them.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn syscall() {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "push [rsp + 8]",
        ".cfi_adjust_cfa_offset 8",
        "push [rsp + 24]",
        ".cfi_adjust_cfa_offset 8",
        "call {}",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "ret",
        ".cfi_endproc",
        sym call
    )
}

#[allow(clippy::too_many_arguments, reason = "the signature of the C function")]
unsafe extern "C-unwind" fn call(
    number: i64,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    pc: u64,
) -> isize {
    let arguments = [a, b, c, d, e, f];
    // SAFETY: the program's call.
    if let Some(result) = unsafe { stream_identity::call(number, arguments) } {
        return result as isize;
    }
    // SAFETY: the program's call, passed on or emulated.
    let result = unsafe {
        match Runtime::enter() {
            None => sys::call(number, arguments),
            Some(runtime) => match number {
                libc::SYS_futex => futex(runtime, arguments, pc),
                libc::SYS_getpid | libc::SYS_getpgrp => ids::PROCESS as isize,
                libc::SYS_kill if ids::is_own(a as i32) => {
                    -kill::send(runtime, (b as i32, libc::SI_USER, 0), None, pc) as isize
                }
                libc::SYS_tkill => -kill::send_to_tid(runtime, a as i32, b as i32, pc) as isize,
                libc::SYS_tgkill if ids::is_own(a as i32) => {
                    -kill::send_to_tid(runtime, b as i32, c as i32, pc) as isize
                }
                libc::SYS_kill | libc::SYS_sched_setaffinity | libc::SYS_sched_getaffinity => {
                    sys::call(number, [ids::to_real(a as i32) as usize, b, c, d, e, f])
                }
                libc::SYS_gettid => runtime.state.me().tid as isize,
                libc::SYS_sched_yield => {
                    runtime.turn(Op::Yield, 0, pc);
                    runtime.log(Op::Yield, Flags::NONE, pc, 0, 0);
                    0
                }
                libc::SYS_getrandom => {
                    runtime.state.random().fill(core::slice::from_raw_parts_mut(a as *mut u8, b));
                    b as isize
                }
                libc::SYS_clock_gettime => match runtime.state.read_clock(a as i32) {
                    Some(now) => {
                        *(b as *mut libc::timespec) = crate::clock::timespec(now);
                        0
                    }
                    None => sys::call(number, arguments),
                },
                libc::SYS_nanosleep => {
                    super::time::sleep_for(runtime, a as *const libc::timespec, b as *mut libc::timespec, pc)
                        as isize
                }
                libc::SYS_clock_nanosleep => -super::time::sleep_by(
                    runtime,
                    a as i32,
                    b as i32,
                    c as *const libc::timespec,
                    d as *mut libc::timespec,
                    pc,
                ) as isize,
                _ => sys::call(number, arguments),
            },
        }
    };
    if (-4095..0).contains(&result) {
        sys::set_errno(-result as i32);
        return -1;
    }
    result
}

const ANY_BIT: u32 = u32::MAX;

/// Emulates the futex call; returns the kernel's result, negative for errors.
pub(crate) unsafe fn futex(
    runtime: &mut Runtime,
    [word, op, value, timeout, second, third]: [usize; 6],
    pc: u64,
) -> isize {
    let realtime = op as i32 & libc::FUTEX_CLOCK_REALTIME != 0;
    let command = op as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let invalid = -libc::EINVAL as isize;
    if word % align_of::<u32>() != 0 {
        return invalid;
    }
    // The kernel takes these as an `int` and ignores the register's upper half.
    let count = |argument: usize| usize::try_from(argument as i32).unwrap_or(0);
    // SAFETY: the program's words and times.
    unsafe {
        match command {
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
                let timeout = timeout as *const libc::timespec;
                let clock = &runtime.state.clock;
                let deadline = if timeout.is_null() {
                    Some(u64::MAX)
                } else if command == libc::FUTEX_WAIT {
                    duration(&*timeout).map(|span| clock.after(span))
                } else {
                    let id = if realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
                    duration(&*timeout).map(|at| clock.moment(id, at))
                };
                let Some(deadline) = deadline else { return invalid };
                let bits = if command == libc::FUTEX_WAIT { ANY_BIT } else { third as u32 };
                if bits == 0 {
                    return invalid;
                }
                wait(runtime, word, value as u32, bits, deadline, pc)
            }
            libc::FUTEX_WAKE => wake(runtime, word, count(value), ANY_BIT, pc),
            libc::FUTEX_WAKE_BITSET if third as u32 == 0 => invalid,
            libc::FUTEX_WAKE_BITSET => wake(runtime, word, count(value), third as u32, pc),
            libc::FUTEX_REQUEUE => requeue(runtime, word, count(value), count(timeout), second, None, pc),
            libc::FUTEX_CMP_REQUEUE => {
                requeue(runtime, word, count(value), count(timeout), second, Some(third as u32), pc)
            }
            libc::FUTEX_WAKE_OP => {
                let woken = wake(runtime, word, count(value), ANY_BIT, pc);
                let old = modify(second as *mut u32, third as u32);
                let more = compare(old, third as u32);
                woken + if more { wake(runtime, second, count(timeout), ANY_BIT, pc) } else { 0 }
            }
            _ => {
                runtime.state.warn(Misuse::NotModelled, pc, word, "a priority-inheriting futex");
                -libc::ENOSYS as isize
            }
        }
    }
}

unsafe fn wait(
    runtime: &mut Runtime,
    word: usize,
    expected: u32,
    bits: u32,
    deadline: u64,
    pc: u64,
) -> isize {
    runtime.turn(Op::FutexWait, word, pc);
    // SAFETY: the program's word.
    let found = unsafe { (word as *const u32).read_volatile() };
    if found != expected {
        runtime.log(Op::FutexWait, Flags::FAILED, pc, word, found.into());
        return -libc::EAGAIN as isize;
    }
    let state = &mut runtime.state;
    let arrival = state.queues.arrive();
    let me = state.me();
    me.arrival = arrival;
    me.granted = None;
    runtime.log(Op::FutexWait, Flags::NONE, pc, word, found.into());

    let gate = Gate::Futex(word, bits);
    let pending = Pending { op: Op::FutexWoken, pc, addr: word as u64, gate, deadline, cancellable: false };
    let turn = runtime.wait_turn(pending);
    let state = &mut runtime.state;
    let me = state.me();
    // A requeue may have moved the waiter.
    let Gate::Futex(word, _) = me.pending.gate else { return 0 };
    let arrival = me.arrival;
    let restarts = me.restarts && deadline == u64::MAX;
    let waker = match (turn, me.granted.take()) {
        (Turn::Go, Some(event)) => Some(event),
        (Turn::Go, None) => state.queues.take(word, arrival),
        _ => None,
    };
    state.changed(word);
    runtime.log_woken(Op::FutexWoken, turn.flags(), pc, (word, 0), waker);
    match turn {
        Turn::TimedOut => -libc::ETIMEDOUT as isize,
        // SAFETY: the caller's contract.
        Turn::Interrupted if restarts => unsafe { wait(runtime, word, expected, bits, deadline, pc) },
        Turn::Interrupted => -libc::EINTR as isize,
        _ => 0,
    }
}

/// Returns the threads that wait at the word without a granted wake-up, in creation order.
fn waiters_without_wake_up(state: &State, word: usize) -> impl Iterator<Item = ThreadIx> {
    state
        .waiters(move |gate| matches!(gate, Gate::Futex(other, _) if *other == word))
        .filter(|w| state.threads[w.index()].granted.is_none())
}

/// Returns the same threads, the longest waiting first.
fn waiters(state: &State, word: usize) -> Vec<ThreadIx> {
    let mut found: Vec<_> = waiters_without_wake_up(state, word).collect();
    found.sort_by_key(|w| state.threads[w.index()].arrival);
    found
}

/// Grants pending wake-ups to the longest waiting threads: the caller must know which threads still wait.
fn grant_pending(state: &mut State, word: usize) {
    while let Some(event) = state.queues.take(word, 0) {
        let longest = waiters_without_wake_up(state, word).min_by_key(|w| state.threads[w.index()].arrival);
        if let Some(waiter) = longest {
            state.thread(waiter).granted = Some(event);
        }
    }
}

/// Returns the bit mask of a wait.
fn wait_bits(state: &State, thread: ThreadIx) -> u32 {
    match state.threads[thread.index()].pending.gate {
        Gate::Futex(_, wait_bits) => wait_bits,
        _ => 0,
    }
}

/// Wakes up to `count` waiters. The scheduler chooses which, unless bit masks distinguish them.
unsafe fn wake(runtime: &mut Runtime, word: usize, count: usize, bits: u32, pc: u64) -> isize {
    runtime.turn(Op::FutexWake, word, pc);
    let state = &mut runtime.state;
    let event = state.log.count();
    let mut waiting = 0_usize;
    let mut has_bit_masks = bits != ANY_BIT;
    for waiter in waiters_without_wake_up(state, word) {
        waiting += 1;
        has_bit_masks |= wait_bits(state, waiter) != ANY_BIT;
    }
    let woken = if has_bit_masks {
        wake_by_bits(state, word, count, bits, event)
    } else {
        let woken = waiting.saturating_sub(state.queues.pending(word)).min(count);
        (0..woken).for_each(|_| state.queues.signal(word, event));
        woken
    };
    state.changed(word);
    runtime.log(Op::FutexWake, if woken == 0 { Flags::FAILED } else { Flags::NONE }, pc, word, woken as u64);
    woken as isize
}

#[cold]
fn wake_by_bits(state: &mut State, word: usize, count: usize, bits: u32, event: u64) -> usize {
    grant_pending(state, word);
    let mut chosen = waiters(state, word);
    chosen.retain(|&waiter| wait_bits(state, waiter) & bits != 0);
    chosen.truncate(count);
    for &waiter in &chosen {
        state.thread(waiter).granted = Some(event);
    }
    chosen.len()
}

/// Wakes some waiters and moves others to another word.
unsafe fn requeue(
    runtime: &mut Runtime,
    word: usize,
    wake: usize,
    limit: usize,
    target: usize,
    expected: Option<u32>,
    pc: u64,
) -> isize {
    runtime.turn(Op::FutexRequeue, word, pc);
    // SAFETY: the program's word.
    if expected.is_some_and(|expected| unsafe { (word as *const u32).read_volatile() } != expected) {
        runtime.log(Op::FutexRequeue, Flags::FAILED, pc, word, target as u64);
        return -libc::EAGAIN as isize;
    }
    let state = &mut runtime.state;
    let event = state.log.count();
    grant_pending(state, word);
    let mut affected = 0;
    for (n, thread) in waiters(state, word).into_iter().take(wake.saturating_add(limit)).enumerate() {
        if n < wake {
            state.thread(thread).granted = Some(event);
        } else {
            let arrival = state.queues.arrive();
            let waiter = state.thread(thread);
            waiter.arrival = arrival;
            if let Gate::Futex(_, bits) = waiter.pending.gate {
                waiter.pending.gate = Gate::Futex(target, bits);
            }
        }
        state.reclassify(thread);
        affected += 1;
    }
    state.changed(word);
    runtime.log_count(Op::FutexRequeue, Flags::NONE, pc, (word, target as u64), affected as u64);
    affected
}

/// Performs the modification of a wake-op; returns the old value.
unsafe fn modify(word: *mut u32, code: u32) -> u32 {
    // SAFETY: the program's word.
    let old = unsafe { *word };
    let shift = code >> 28 & 8 != 0;
    let argument = (code as i32) << 8 >> 20;
    let argument = if shift { 1u32.wrapping_shl(argument as u32) } else { argument as u32 };
    let new = match code >> 28 & 7 {
        0 => argument,
        1 => old.wrapping_add(argument),
        2 => old | argument,
        3 => old & !argument,
        _ => old ^ argument,
    };
    // SAFETY: the program's word.
    unsafe { *word = new };
    old
}

/// Evaluates the comparison of a wake-op.
const fn compare(old: u32, code: u32) -> bool {
    let (old, argument) = (old as i32, (code as i32) << 20 >> 20);
    match code >> 24 & 15 {
        0 => old == argument,
        1 => old != argument,
        2 => old < argument,
        3 => old <= argument,
        4 => old > argument,
        _ => old >= argument,
    }
}
