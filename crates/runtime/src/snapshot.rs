//! Snapshots: a run that reached the end of its plan waits there, and others continue from it with their own
//! plans.
//!
//! Fibers share one kernel thread, so a fork copies all of them. Each run first restores what a fork shares
//! with its parent instead of copying it: the log so far, and the open files ([`crate::files`]). If that is
//! not possible, the snapshot is refused.

use crate::{
    access,
    context::ThreadBackend,
    dispatch, end,
    files::{CannotRestore, OpenFiles},
    heap,
    hooks::ids,
    init, libc_randomness, serve,
    state::Runtime,
    sys,
};
use core::sync::atomic::Ordering;
use unsnarl_model::Op;

/// Handles the end of the plan: waits as a snapshot if the plan says so, else ends the run. Returns in
/// another process, with a plan that continues from here.
pub(crate) fn wait(runtime: &mut Runtime) {
    let state = &mut runtime.state;
    let Some(channel) = serve::channel(state.log.header().plan.snapshot) else { end::plan_end(state) };
    let open_files = if state.has_file_locks {
        Err(CannotRestore("it uses file locks, which a fork does not keep"))
    } else if state.log.header().changed_files.load(Ordering::Relaxed) != 0 {
        Err(CannotRestore("it has changed files"))
    } else {
        heap::with_plan_heap(|| OpenFiles::save(channel))
    };
    let files = match (state.backend(), open_files) {
        (ThreadBackend::Fibers, Ok(files)) => files,
        (backend, saved_channel) => {
            let reason = match saved_channel {
                Err(CannotRestore(reason)) if backend == ThreadBackend::Fibers => reason,
                _ => "a fork copies only the calling kernel thread, so snapshots need fibers",
            };
            end::set_message(&mut state.log.header().end, reason.as_bytes());
            serve::send_answer(channel, &[0]);
            sys::exit(0)
        }
    };
    let saved = heap::with_plan_heap(|| state.log.save());
    if !serve::send_answer(channel, &[1]) {
        sys::exit(0);
    }
    // Restoring files needs system calls that the rewind filter forbids.
    let can_rewind = files.is_empty();
    heap::with_plan_heap(|| serve::wait_for_run(channel, state.log.header(), can_rewind));

    dispatch::enable_in_fork();
    files.restore();
    ids::enable(sys::process());
    state.log.restore_log(&saved);
    if state.log.header().first_random.load(Ordering::Relaxed) == 0 {
        // The program has not used any random number, so each run has its own.
        let seed = state.log.header().plan.entropy;
        state.entropy = libc_randomness::start(seed);
        access::set_sample_seed(seed);
    }
    // The new log lacks the time-outs that are withheld at this moment.
    state.timeouts.invalidate();
    state.rounds.continue_with(&state.log.header().plan);
    state.log.check_at(state.rounds.due());
    let picker = heap::with_plan_heap(|| init::picker(&state.log));
    state.observed = init::is_observed(&state.log.header().plan);
    let waits = state.log.header().plan.from_checkpoint != 0 && !state.log.has(Op::Checkpoint);
    runtime.picker = if waits { picker.deferred() } else { picker };
    state.log.header().attached.store(1, Ordering::Release);
}
