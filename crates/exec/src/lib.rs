//! Starts a target with a plan and collects its trace.
//!
//! [`Executor::run`] is the one arrow of the system: a [`Plan`](unsnarl_model::Plan) in, a [`Run`] out. The
//! run happened in another process; what it left in shared memory becomes a
//! [`Trace`](unsnarl_model::Trace) when asked for.

mod collect;
mod error;
mod last_words;
mod library;
mod memory;
mod outcome;
mod process;
mod program;
mod run;

pub use error::Error;
pub use library::runtime_directory;
pub use program::{check, find};
pub use run::{Executor, Run, Settings};
