//! Files. An operation on a path, or on the contents of a regular file, while several threads are alive.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | read (open, look up, read data) | always | none | reads the file and its directory; writes the position if it uses that | acquires the file |
//! | write (data, length, attributes) | always | changes the file | writes the file; reads its directory | acquires and releases the file |
//! | create | always | the file exists | writes the file, reads it if it failed; adds a name to its directory | acquires and releases the file |
//! | remove | always | the file is gone | like create | acquires and releases the file |
//! | rename, link | always | the file has the new name | writes both files, reads them if it failed; adds a name to both directories | acquires and releases both files |
//! | list (a directory) | always | none | reads the directory; writes its list of names | acquires the directory |
//!
//! Adding a name reads the list of names, and listing writes it: names are added in any order, but a list has
//! them or not. Threads may share a descriptor, so all positions in one file count as one. A directory is a file
//! too: an operation in it reads it, and its creation and removal write it.

use crate::{
    OpResult,
    edge::{Edge, SyncPoint},
    machine::Enabled,
    touch::{SharedObject, Touch},
};
use unsnarl_model::{Event, FileCall, FileName, Op};

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileOp {
    /// The kind of operation.
    pub kind: FileOpKind,
    /// The file.
    pub file: FileName,
    /// The number of bytes; the error number if the operation failed.
    pub outcome: u64,
}

/// The kind of operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileOpKind {
    /// It is looked up, opened or read.
    Read(FileCall),
    /// Its contents or attributes change.
    Write(FileCall),
    /// It is created, unless it is there.
    Create(FileCall),
    /// It is removed.
    Remove(FileCall),
    /// It gets its name, instead of this one or in addition to it.
    Rename(FileName),
    /// Its names are listed.
    List,
}

impl FileOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let call = FileCall::from_number(event.size as u8).unwrap_or(FileCall::Transfer);
        let (from, error) = FileName::other(event.size, event.value);
        let kind = match event.op {
            Op::FileRead => FileOpKind::Read(call),
            Op::FileWrite => FileOpKind::Write(call),
            Op::FileCreate => FileOpKind::Create(call),
            Op::FileRemove => FileOpKind::Remove(call),
            Op::FileRename => FileOpKind::Rename(from),
            _ => FileOpKind::List,
        };
        let outcome = if event.op == Op::FileRename { error } else { event.value };
        let unknown = FileName { file: 0, directory: 0 };
        Self { kind, file: FileName::from_addr(event.addr).unwrap_or(unknown), outcome }
    }

    #[inline]
    pub(crate) fn touches(&self, result: OpResult, emit: &mut impl FnMut(Touch)) {
        let succeeded = result.succeeded();
        let mut name = |file: FileName, writes: bool, changes_names: bool| {
            emit(Touch::writes_if(writes, SharedObject::File(file.object())));
            emit(Touch::reads(SharedObject::File(file.directory_object())));
            if changes_names {
                emit(Touch::reads(SharedObject::FileNames(file.directory_object())));
            }
        };
        match self.kind {
            FileOpKind::Read(call) => {
                name(self.file, false, false);
                if matches!(call, FileCall::Position | FileCall::Seek) {
                    emit(Touch::writes(SharedObject::FilePosition(self.file.object())));
                }
            }
            FileOpKind::Write(_) => name(self.file, true, false),
            FileOpKind::Create(_) | FileOpKind::Remove(_) => name(self.file, succeeded, succeeded),
            FileOpKind::Rename(from) => {
                name(self.file, succeeded, succeeded);
                name(from, succeeded, succeeded);
            }
            FileOpKind::List => {
                name(self.file, false, false);
                emit(Touch::writes(SharedObject::FileNames(self.file.object())));
            }
        }
    }

    #[inline]
    pub(crate) fn edges(&self, mut emit: impl FnMut(Edge)) {
        let file = SyncPoint::Object(self.file.object());
        emit(Edge::Acquire(file));
        match self.kind {
            FileOpKind::Read(_) | FileOpKind::List => {}
            FileOpKind::Write(_) | FileOpKind::Create(_) | FileOpKind::Remove(_) => emit(Edge::Release(file)),
            FileOpKind::Rename(from) => {
                let from = SyncPoint::Object(from.object());
                emit(Edge::Acquire(from));
                emit(Edge::Release(file));
                emit(Edge::Release(from));
            }
        }
    }

    pub(crate) const fn enabled() -> Enabled {
        Enabled::Yes
    }
}
