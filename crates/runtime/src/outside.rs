//! The world outside: when nobody can go on but by something from there, the carrier really waits for it.
//!
//! A descriptor whose other end is in this process alone is none of the outside's business: whoever waits for it when nobody
//! else can run waits for ever.

use crate::{descriptors::Peer, end, gate::Gate, state::State, sys};
use unsnarl_model::ThreadIx;

/// How long virtual time may be waited for in real time at once, in nanoseconds, while something may come from outside.
const STEP: u64 = 50_000_000;
/// How long to wait before looking again where the kernel tells nobody of a change, in nanoseconds.
const NAP: u64 = 2_000_000;

impl State {
    /// Nobody is ready: if somebody waits for the outside, time is given to it; if nobody waits for anything that can
    /// come, that is a deadlock.
    #[cold]
    pub(crate) fn let_the_outside_act(&mut self) {
        if self.late.iter().any(|thread| self.comes_by_itself(thread)) {
            return;
        }
        loop {
            if !self.waiting.iter().any(|thread| self.waits_for_outside(thread)) {
                if self.late.is_empty() && self.waiters(|gate| *gate == Gate::Input).next().is_some() {
                    end::lacks_input(self);
                }
                if self.late.is_empty() {
                    end::deadlock(self, "no thread can go on");
                }
                return;
            }
            let now = self.clock.now();
            let deadline = self.late.iter().map(|t| self.threads[t.index()].pending.deadline).min();
            // Virtual time passes at the pace of the real one while somebody outside may be on the way.
            let most = deadline.map(|deadline| deadline.saturating_sub(now).min(STEP));
            self.wait_for_outside(most);
            self.poll();
            if !self.ready.is_empty() || !self.late.is_empty() {
                return;
            }
        }
    }

    /// Whether something from outside may let the thread go on.
    pub(crate) fn waits_for_outside(&self, thread: ThreadIx) -> bool {
        let thread = &self.threads[thread.index()];
        match thread.pending.gate {
            Gate::Descriptors => thread.awaited.iter().any(|fd| {
                // SAFETY: only the kernel writes there, and not now.
                let fd = unsafe { (*fd.get()).fd };
                match self.descriptors.peer(fd) {
                    Some(Peer::Outside) => true,
                    Some(Peer::Children) => has_live_children(),
                    _ => false,
                }
            }),
            Gate::FileLock(_) => true,
            _ => false,
        }
    }

    fn wait_for_outside(&mut self, most: Option<u64>) {
        let mut fds = core::mem::take(&mut self.outside);
        fds.clear();
        let mut unheard = false;
        for thread in self.waiting.iter() {
            let thread = &self.threads[thread.index()];
            if thread.pending.gate == Gate::Descriptors {
                // SAFETY: only the kernel writes there, and not now.
                fds.extend(thread.awaited.iter().map(|fd| unsafe { *fd.get() }));
            }
            unheard |= matches!(thread.pending.gate, Gate::FileLock(_));
        }
        let most = if unheard { Some(most.unwrap_or(u64::MAX).min(NAP)) } else { most };
        let time = most.map(crate::clock::timespec);
        let time = time.as_ref().map_or(0, |time| core::ptr::from_ref(time) as usize);
        // SAFETY: as many entries as it says.
        unsafe { sys::call(libc::SYS_ppoll, [fds.as_mut_ptr() as usize, fds.len(), time, 0, 0, 0]) };
        self.file_locks_changed += u64::from(unheard);
        self.outside = fds;
    }
}

/// Whether a child of this process may still do something.
fn has_live_children() -> bool {
    let options = (libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) as usize;
    // SAFETY: plain numbers; the kernel fills them in.
    let mut info: libc::siginfo_t = unsafe { core::mem::zeroed() };
    let args = [libc::P_ALL as usize, 0, &raw mut info as usize, options, 0, 0];
    // SAFETY: asks only; nobody is waited for.
    unsafe { sys::call(libc::SYS_waitid, args) == 0 }
}
