//! Operations on files as text: `create /tmp/lock: it exists`.

use super::descriptor::{bytes, error};
use crate::objects::ObjectNames;
use unsnarl_model::{FileCall, FileName};
use unsnarl_semantics::{FileOp, FileOpKind, OpResult};

/// Describes an operation on the file of this name.
pub(super) fn operation(op: &FileOp, result: OpResult, name: &str, objects: &ObjectNames) -> String {
    let words = match op.kind {
        FileOpKind::Read(FileCall::Transfer | FileCall::Position) if result.succeeded() => match op.outcome {
            0 => format!("read the end of {name}"),
            count => format!("read {} from {name}", bytes(count)),
        },
        FileOpKind::Write(FileCall::Transfer | FileCall::Position)
            if result.succeeded() && op.outcome > 0 =>
        {
            format!("write {} to {name}", bytes(op.outcome))
        }
        FileOpKind::Read(FileCall::Transfer | FileCall::Position) => format!("read {name}"),
        FileOpKind::Read(FileCall::Seek) => format!("seek in {name}"),
        FileOpKind::Read(FileCall::Query) => format!("look up {name}"),
        FileOpKind::Read(FileCall::Open | FileCall::Directory) => format!("open {name}"),
        FileOpKind::Write(FileCall::Open) => format!("open {name}, which empties it"),
        FileOpKind::Write(_) => format!("change {name}"),
        FileOpKind::Create(FileCall::Open) => format!("create or open {name}"),
        FileOpKind::Create(FileCall::Directory) => format!("create directory {name}"),
        FileOpKind::Create(_) => format!("create {name}"),
        FileOpKind::Remove(_) => format!("remove {name}"),
        FileOpKind::Rename(from) => format!("rename {} to {name}", other(from, objects)),
        FileOpKind::List => format!("list {name}"),
    };
    if result.succeeded() { words } else { format!("{words}: {}", failure(op.outcome)) }
}

fn other(file: FileName, objects: &ObjectNames) -> String {
    objects.file(file.object()).unwrap_or_else(|| "a file".to_owned())
}

/// Describes why a call on a file failed.
fn failure(number: u64) -> String {
    let reason = match number {
        1 => "not permitted",
        2 => "it does not exist",
        13 => "permission denied",
        17 => "it exists",
        20 => "not a directory",
        21 => "is a directory",
        39 => "the directory is not empty",
        _ => return error(number),
    };
    reason.to_owned()
}
