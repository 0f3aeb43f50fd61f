//! The lives of threads.

use crate::{Contradiction, Operation, Step, ThreadOp};
use alloc::vec::Vec;
use unsnarl_model::ThreadIx;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Life {
    created: bool,
    /// The number of its events.
    executed: u64,
    ended: bool,
    joined: bool,
}

/// The threads of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Threads {
    lives: Vec<Life>,
    /// The program is exiting: later events of its last thread belong to no thread.
    exiting: bool,
}

impl Threads {
    /// Records that a thread executes an operation.
    #[inline]
    pub(crate) fn run(&mut self, step: &Step) -> Result<(), Contradiction> {
        self.exiting |= matches!(step.operation, Operation::Thread(ThreadOp::Exit { .. }));
        let exiting = self.exiting;
        let life = self.at(step.thread);
        life.executed += 1;
        if life.joined && !exiting {
            Err(Contradiction::EventAfterJoin)
        } else if life.ended && !exiting {
            Err(Contradiction::EventAfterEnd)
        } else {
            Ok(())
        }
    }

    pub(crate) fn create(&mut self, thread: ThreadIx) -> Result<(), Contradiction> {
        let life = self.at(thread);
        life.created = true;
        // Some tools record the creation twice, before the thread runs.
        if life.executed > 0 { Err(Contradiction::DuplicateCreation(thread)) } else { Ok(()) }
    }

    /// Records that a thread is joined; `None` if it never existed.
    pub(crate) fn join(&mut self, thread: ThreadIx) -> Option<()> {
        let life = self.lives.get_mut(thread.index()).filter(|life| life.created || life.executed > 0)?;
        life.joined = true;
        Some(())
    }

    pub(crate) fn end(&mut self, thread: ThreadIx) {
        self.at(thread).ended = true;
    }

    pub(crate) fn is_created(&self, thread: ThreadIx) -> bool {
        self.lives.get(thread.index()).is_some_and(|life| life.created)
    }

    pub(crate) fn has_ended(&self, thread: ThreadIx) -> bool {
        self.lives.get(thread.index()).is_some_and(|life| life.ended)
    }

    /// Returns the number of events of a thread so far.
    pub(crate) fn executed(&self, thread: ThreadIx) -> u64 {
        self.lives.get(thread.index()).map_or(0, |life| life.executed)
    }

    #[inline]
    fn at(&mut self, thread: ThreadIx) -> &mut Life {
        if self.lives.len() <= thread.index() {
            self.lives.resize(thread.index() + 1, Life::default());
        }
        &mut self.lives[thread.index()]
    }
}
