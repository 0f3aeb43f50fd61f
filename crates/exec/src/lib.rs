//! Starts a target with a plan and collects its trace.
//!
//! [`Executor::run`] is the central operation of the system: it takes a [`Plan`](unsnarl_model::Plan) and returns a
//! [`Run`]. The run happened in another process; [`Run::trace`] converts the contents of the shared memory to a
//! [`Trace`](unsnarl_model::Trace).

#![deny(unsafe_code)]

mod binding;
mod collect;
mod debuggee;
mod error;
mod executor;
mod files;
mod follow;
mod influences;
mod instruction_trace;
mod library;
#[allow(unsafe_code, reason = "memory shared with another process")]
mod memory;
mod monitor;
mod notes;
mod outcome;
#[allow(unsafe_code, reason = "system calls that std does not have")]
mod probe;
#[allow(unsafe_code, reason = "system calls that std does not have")]
mod process;
mod program;
mod rewind_policy;
mod run;
mod settings;
#[allow(unsafe_code, reason = "system calls that std does not have")]
mod signals;
mod snapshot;
mod stderr_tail;
mod steps;
mod streams;

pub use debuggee::become_debuggee;
pub use error::Error;
pub use executor::Executor;
pub use follow::{Launcher, follow};
pub use influences::HiddenInfluences;
pub use instruction_trace::{InstructionTrace, InstructionTraceOptions};
pub use library::{HEADERS, install_file, runtime_directory};
pub use notes::take_notes;
pub use probe::{
    address_space_limit, check_data_limit, data_limit, has_fsgsbase, has_process_handles, has_seccomp,
    has_syscall_user_dispatch, kernel_release, stack_limit,
};
pub use process::{
    Layout, check_threads, ignore_file_size_signal, layout, processor_time, raise_descriptor_limit,
};
pub use program::{check, find};
pub use run::{Run, WithheldTimeouts};
pub use settings::{FileChanges, Settings, ThreadBackend};
pub use signals::has_kill;
pub use snapshot::SnapshotResult;
pub use steps::WordProgress;
pub use unsnarl_wire::{CHUNK_WORDS, RUNTIME_LIBRARY, Tracing};
