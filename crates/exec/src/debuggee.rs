//! Becomes a program that is run by a plan under a debugger.

use crate::{
    Error,
    binding::Binding,
    memory::{RunMode, SharedMemory},
    process::{Launch, raise_descriptor_limit, replace},
    settings::ThreadBackend,
    signals,
    streams::create_streams,
};
use std::io::Seek;
use unsnarl_model::{Plan, Program};

/// Replaces this process with the program, run by this plan on kernel threads, for the debugger that started this
/// process. Returns only if that fails.
#[must_use]
pub fn become_debuggee(program: &Program, plan: &Plan) -> Error {
    let prepared = || {
        raise_descriptor_limit()?;
        signals::check_allowed()?;
        let streams = create_streams(program)?;
        let failed = |cause| Error::System { action: "cannot reset the streams", cause };
        (&streams.stdin).rewind().map_err(failed)?;
        let binding = Binding::of(program)?;
        let mut memory = SharedMemory::new(program)?;
        let mode = RunMode { threads: ThreadBackend::Kernel, debugged: true, ..RunMode::default() };
        memory.prepare(plan, mode, &program.path)?;
        Ok((streams, binding, memory))
    };
    match prepared() {
        Ok((streams, binding, memory)) => {
            replace(Launch { program, binding: &binding, streams: &streams, memory: memory.fd(), view: None })
        }
        Err(error) => error,
    }
}
