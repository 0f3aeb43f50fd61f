//! Snapshots: a run that came to the end of its plan waits there, and others go on from it by plans of their own.
//!
//! Fibers are of one kernel thread, so a fork takes all of them along. What a fork shares with its parent
//! instead of copying it is put back by each run before it goes on: what the run told the controller so far, and
//! the open files ([`crate::files`]). Where that is not possible, the snapshot is refused.

use crate::{
    context::Backend,
    dispatch, end,
    files::{Files, Shared},
    heap,
    hooks::ids,
    init, serve,
    state::Runtime,
    sys,
};
use unsnarl_model::Op;

/// The plan is at its end: waits as a snapshot if the plan says so, and ends the run if not. Returns in another
/// process, with a plan that goes on from here.
pub(crate) fn wait(runtime: &mut Runtime) {
    let state = &mut runtime.state;
    let Some(channel) = serve::channel(state.log.header().plan.snapshot) else { end::plan_end(state) };
    let files = match (state.backend(), heap::aside(|| Files::keep(channel))) {
        (Backend::Fibers, Ok(files)) => files,
        (backend, kept) => {
            let what = match kept {
                Err(Shared(what)) if backend == Backend::Fibers => what,
                _ => "of kernel threads a fork takes only one along",
            };
            end::set_message(&mut state.log.header().end, what.as_bytes());
            serve::answer(channel, &[0]);
            sys::exit(0)
        }
    };
    let told = heap::aside(|| state.log.keep());
    if !serve::answer(channel, &[1]) {
        sys::exit(0);
    }
    // Whoever puts files back asks more of the kernel than a process that is rewound may.
    let rewinds = files.is_empty();
    heap::aside(|| serve::wait_for_a_run(channel, state.log.header(), rewinds));

    dispatch::begin_again();
    files.put_back();
    ids::begin(sys::process());
    state.log.tell_again(&told);
    let picker = heap::aside(|| init::picker(&state.log));
    state.observed = state.log.header().plan.choices > 0;
    let waits = state.log.header().plan.from_checkpoint != 0 && !state.log.has(Op::Checkpoint);
    runtime.picker = if waits { picker.waiting() } else { picker };
    state.log.header().attached.store(1, core::sync::atomic::Ordering::Release);
}
