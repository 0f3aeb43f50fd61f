//! The program's standard streams: memory files, whose contents are read after the run or forwarded during it.

use crate::{
    Error,
    memory::{append_only, memory_file},
};
use std::{fs::File, io::Write, os::unix::fs::FileExt};
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
    stdout: u64,
    stderr: u64,
}

impl OutputForwarder {
    pub(crate) fn forward(&mut self, streams: &Streams) {
        copy_from(&streams.stdout, &mut self.stdout, &mut std::io::stdout());
        copy_from(&streams.stderr, &mut self.stderr, &mut std::io::stderr());
    }
}

fn copy_from(stream: &File, at: &mut u64, to: &mut dyn Write) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read) = stream.read_at(&mut buffer, *at)
        && read > 0
    {
        *at += read as u64;
        // A closed reader on our side must not affect the program.
        let _ = to.write_all(&buffer[..read]);
    }
    let _ = to.flush();
}
