//! Child processes as text: `start child process 5100000`.

use super::descriptor::error;
use unsnarl_semantics::{DescriptorOp, DescriptorOpKind, OpResult};

/// `EAGAIN` of Linux: the child still runs, and the wait goes on.
const STILL_RUNNING: u64 = 11;

/// The wait for a child, after "waits ".
pub(super) const WAIT: &str = "for a child process to end";

/// Describes an operation on child processes.
pub(super) fn operation(op: &DescriptorOp, result: OpResult) -> String {
    let starts = op.kind == DescriptorOpKind::ChildStart;
    let failed = matches!(result, OpResult::Failed | OpResult::Interrupted);
    match op.outcome {
        _ if result == OpResult::Cancelled => "wait for a child process: cancelled".to_owned(),
        cause if starts && failed => format!("start a child process: {}", error(cause)),
        child if starts => format!("start child process {child}"),
        STILL_RUNNING if failed => "wait for a child process: still running".to_owned(),
        cause if failed => format!("wait for a child process: {}", error(cause)),
        0 => "waitpid: no child has ended".to_owned(),
        child => format!("wait for child process {child}: ended"),
    }
}
