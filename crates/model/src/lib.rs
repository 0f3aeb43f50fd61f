//! The data types that all parts of unsnarl share: threads, sites in the code, operations and events,
//! schedules, plans and outcomes.
//!
//! The crate has no dependencies and does no I/O, because the runtime inside the target uses the same types
//! as the analyses.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod channel;
mod conflict;
mod divergence;
mod event;
mod input;
mod op;
mod outcome;
mod plan;
mod schedule;
mod site;
mod thread;
mod trace;

pub use channel::{Channel, ChannelKind};
pub use conflict::{Conflict, ConflictKind, Side};
pub use divergence::Divergence;
pub use event::{Event, Flags, Waker};
pub use input::{Input, Inputs};
pub use op::{ObjectKind, Op, Order};
pub use outcome::{Backtrace, Limit, Misuse, Outcome, OutcomeKind, Signature, Wait, Warning, signal_name};
pub use plan::{Action, Fidelity, Places, Plan, PlannedAction, Points, Policy, Prefix, RunLimits, Span};
pub use schedule::{EnabledThreads, Schedule, Segment, Stats, StatsCounter};
pub use site::{ModuleIx, Site, SiteIx};
pub use thread::{ThreadId, ThreadIx};
pub use trace::{Counterfactual, Module, Output, Program, Thread, Trace};
