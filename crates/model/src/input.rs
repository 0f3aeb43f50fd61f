//! What came from outside.

use crate::{Op, ThreadId};
use alloc::{sync::Arc, vec::Vec};

/// One answer of the world outside: what an operation on a descriptor gave, whose other end is not in the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Input {
    /// Who asked.
    pub thread: ThreadId,
    /// By what operation.
    pub op: Op,
    /// It came because time was up.
    pub timed_out: bool,
    /// The thread had to wait for it.
    pub blocked: bool,
    /// For how much: another length would have got another answer.
    pub requested: u64,
    /// What the call returned; an error number if negative.
    pub result: i64,
    /// What it wrote into the program's memory.
    pub bytes: Vec<u8>,
}

/// All that came from outside, in the order of arrival; none if the world itself is to be asked.
pub type Inputs = Option<Arc<Vec<Input>>>;
