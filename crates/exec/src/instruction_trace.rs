//! Runs whose instructions are traced: which ones, how the trace is collected during the run, and the result.

use crate::{
    Error, Run,
    memory::SharedMemory,
    steps::{CompressedSteps, WordProgress},
};
use std::sync::atomic::{AtomicBool, Ordering};
use unsnarl_model::Trace;
use unsnarl_wire::Tracing;

/// Which instructions to trace, and how.
#[derive(Clone, Copy)]
pub struct InstructionTraceOptions<'a> {
    /// The tracing method.
    pub how: Tracing,
    /// Paths of the modules whose instructions are traced.
    pub modules: &'a [String],
    /// For each thread the number of events after which it is no longer traced; empty to trace all.
    pub until: &'a [u64],
    /// Functions at which the trace of a thread pauses until the thread unwinds.
    pub pauses: &'a [u64],
    /// Limit on the bytes of the compressed trace.
    pub bytes: u64,
    /// Called with the number of words so far.
    pub progress: WordProgress<'a>,
}

impl std::fmt::Debug for InstructionTraceOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instructions")
            .field("how", &self.how)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// Collects the instruction trace of a run.
pub(crate) struct TraceCollector<'a> {
    pub(crate) limit: u64,
    pub(crate) progress: WordProgress<'a>,
    pub(crate) steps: &'a mut CompressedSteps,
}

impl TraceCollector<'_> {
    /// Collects the trace on another thread while `wait` waits for the program.
    pub(crate) fn beside<R>(&mut self, memory: &SharedMemory, wait: impl FnOnce() -> R) -> Result<R, Error> {
        let (written, ended) = (memory.live_trace(), AtomicBool::new(false));
        let Self { limit, progress, .. } = *self;
        std::thread::scope(|scope| {
            let collector = std::thread::Builder::new()
                .spawn_scoped(scope, || CompressedSteps::collect(&written, &ended, limit, progress))
                .map_err(|cause| Error::System { action: "cannot start a thread", cause })?;
            let waited = wait();
            ended.store(true, Ordering::Release);
            *self.steps = collector.join().unwrap_or_default();
            Ok(waited)
        })
    }
}

/// A finished run whose instructions were traced.
#[derive(Debug)]
pub struct InstructionTrace<'a> {
    /// The run itself.
    pub run: Run<'a>,
    pub(crate) steps: CompressedSteps,
}

impl InstructionTrace<'_> {
    /// Returns the schedule trace, as for any run.
    #[must_use]
    pub fn schedule_trace(&self) -> Trace {
        self.run.trace_with(self.run.output.clone())
    }

    /// Returns the number of words of the trace; [`unsnarl_wire::StepWord`] describes them.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.steps.len()
    }

    /// Returns the compressed size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.steps.bytes()
    }

    /// Reads the words of a chunk and the first [`unsnarl_wire::OVERLAP_WORDS`] of the next.
    pub fn read(&self, chunk: usize, into: &mut Vec<u64>) {
        self.steps.read(chunk, into);
    }
}
