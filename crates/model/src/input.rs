//! Inputs from outside the program.

use crate::{Op, ThreadId};
use alloc::{sync::Arc, vec::Vec};

/// The result of one I/O operation whose peer is outside the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Input {
    /// The thread that performed the operation.
    pub thread: ThreadId,
    /// The operation.
    pub op: Op,
    /// The operation returned because of a timeout.
    pub timed_out: bool,
    /// The thread had to wait.
    pub blocked: bool,
    /// The requested length: another length would have got another result.
    pub requested: u64,
    /// The call's result; an error number if negative.
    pub result: i64,
    /// The bytes written into the program's memory.
    pub bytes: Vec<u8>,
}

/// All inputs in the order of arrival; `None`: perform real I/O.
pub type Inputs = Option<Arc<Vec<Input>>>;
