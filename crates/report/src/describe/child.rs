//! Child processes as text: `start child process 5100000`.

use super::descriptor::error;
use unsnarl_model::{Event, Flags, Op};

/// The wait for a child, after "waits ".
pub(super) const WAIT: &str = "for a child process to end";

/// Describes an event.
pub(super) fn event(event: &Event) -> String {
    let value = event.value;
    match event.op {
        _ if event.flags.has(Flags::CANCELLED) => "wait for a child process: cancelled".to_owned(),
        Op::ChildStart if event.flags.has(Flags::FAILED) => {
            format!("start a child process: {}", error(value))
        }
        Op::ChildStart => format!("start child process {value}"),
        // The wait goes on.
        _ if event.flags.has(Flags::FAILED) && value == 11 => {
            "wait for a child process: still running".to_owned()
        }
        _ if event.flags.has(Flags::FAILED) => format!("wait for a child process: {}", error(value)),
        _ if value == 0 => "waitpid: no child has ended".to_owned(),
        _ => format!("wait for child process {value}: ended"),
    }
}
