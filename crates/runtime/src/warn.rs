//! Misuse that does not end the run.

use crate::state::State;
use unsnarl_model::Misuse;

impl State {
    /// Records a misuse by the running thread.
    #[cold]
    pub(crate) fn warn(&self, misuse: Misuse, pc: u64, addr: usize, detail: &str) {
        self.log.warning(misuse as u8, self.current, pc, addr as u64, detail.as_bytes());
    }
}
