//! The program's standard streams: memory files, whose contents are read after the run or forwarded during it.

use crate::{
    Error,
    memory::{append_only, memory_file},
};
use std::{
    cell::OnceCell,
    fs::File,
    io::Write,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    },
};
use unsnarl_model::Program;

/// The target's standard streams.
pub(crate) struct Streams {
    pub(crate) stdin: File,
    pub(crate) stdout: File,
    pub(crate) stderr: File,
}

/// Creates a program's streams and writes its standard input.
pub(crate) fn create_streams(program: &Program) -> Result<Streams, Error> {
    let mut stdin = memory_file(c"standard input")?;
    let failed = |cause| Error::System { action: "cannot store the standard input", cause };
    stdin.write_all(&program.stdin).map_err(failed)?;
    Ok(Streams {
        stdin,
        stdout: append_only(memory_file(c"standard output")?),
        stderr: append_only(memory_file(c"standard error")?),
    })
}

/// Returns everything that was written to the stream.
pub(crate) fn contents(stream: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut room = [0; 4096];
    // Read errors end the loop: a memory file does not fail, and a short read occurs only at its end.
    while let Ok(read @ 1..) = stream.read_at(&mut room, bytes.len() as u64) {
        bytes.extend_from_slice(&room[..read]);
        if read < room.len() {
            break;
        }
    }
    bytes
}

/// Forwards output to our own streams as it comes.
#[derive(Default)]
pub(crate) struct OutputForwarder {
    stdout: ForwardedStream,
    stderr: ForwardedStream,
}

/// One of the two streams, and how much of it was forwarded.
#[derive(Default)]
struct ForwardedStream {
    forwarded: u64,
    /// Our own stream in non-blocking mode, once it was opened, if it can block.
    nonblocking: OnceCell<Option<File>>,
}

impl OutputForwarder {
    /// Forwards what our streams take at once. A reader that does not read must not keep the run from its limits.
    pub(crate) fn forward(&mut self, streams: &Streams) {
        self.stdout.forward(&streams.stdout, &mut std::io::stdout());
        self.stderr.forward(&streams.stderr, &mut std::io::stderr());
    }

    /// Forwards the rest after the run, however long that takes.
    pub(crate) fn finish(&mut self, streams: &Streams) {
        self.stdout.finish(&streams.stdout, &mut std::io::stdout());
        self.stderr.finish(&streams.stderr, &mut std::io::stderr());
    }
}

impl ForwardedStream {
    fn forward<T: Write + AsFd>(&mut self, stream: &File, to: &mut T) {
        match self.nonblocking.get_or_init(|| nonblocking(to.as_fd())) {
            // The rest, or everything after an error, is left for the end.
            Some(file) => {
                let mut file = file;
                copy_from(stream, &mut self.forwarded, |bytes| file.write(bytes).ok());
            }
            None => self.finish(stream, to),
        }
    }

    fn finish(&mut self, stream: &File, to: &mut impl Write) {
        copy_from(stream, &mut self.forwarded, |bytes| {
            // A closed reader on our side must not affect the program.
            let _ = to.write_all(bytes);
            Some(bytes.len())
        });
        let _ = to.flush();
    }
}

/// Opens a pipe or a terminal a second time, in non-blocking mode; `None` if it is something else, which does not block.
fn nonblocking(stream: BorrowedFd<'_>) -> Option<File> {
    let path = format!("/proc/self/fd/{}", stream.as_raw_fd());
    let kind = std::fs::metadata(&path).ok()?.file_type();
    if !kind.is_fifo() && !kind.is_char_device() {
        return None;
    }
    File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path).ok()
}

/// Copies the stream from this position on, as long as `write` takes bytes; it returns how many it took.
fn copy_from(stream: &File, at: &mut u64, mut write: impl FnMut(&[u8]) -> Option<usize>) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read) = stream.read_at(&mut buffer, *at)
        && read > 0
        && let Some(written @ 1..) = write(&buffer[..read])
    {
        *at += written as u64;
    }
}
