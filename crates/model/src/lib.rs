//! The data types that all parts of unsnarl share: threads, sites in the code, operations and events,
//! schedules, plans and outcomes.
//!
//! The crate has no dependencies and does no I/O, because the runtime inside the target uses the same types
//! as the analyses.
//!
//! # Words for the order in which threads run
//!
//! | word | meaning |
//! | --- | --- |
//! | [`Plan`] | everything that determines a run: a prefix, a policy for the rest, seeds, points, limits |
//! | [`Prefix`] | the part of a plan that says which thread runs at each of the first points; its threads have paths of creation, so that it fits every run of the program |
//! | [`Schedule`] | the same for a run that has happened: segments of one trace's threads, by their indices |
//! | [`Segment`] | a maximal sequence of points of one thread in either of them |
//! | order | a permutation of the events of one trace, by their numbers: what static simplification computes |
//! | witness | an order of a part of a trace that leads to a predicted error (`unsnarl_predict::Witness`) |
//!
//! A schedule becomes a prefix to run it again, an order becomes a schedule by counting, and a run of a prefix
//! has the schedule that the prefix describes.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod channel;
mod conflict;
mod divergence;
mod event;
mod hash;
mod input;
mod op;
mod outcome;
mod plan;
mod schedule;
mod signature;
mod site;
mod thread;
mod trace;

pub use channel::{Channel, ChannelKind};
pub use conflict::{Conflict, ConflictKind, Side};
pub use divergence::Divergence;
pub use event::{Event, Flags, Waker};
pub use hash::stable_hash;
pub use input::{Input, Inputs};
pub use op::{ObjectKind, Op, Order};
pub use outcome::{Backtrace, Limit, Misuse, Outcome, OutcomeKind, Wait, Warning, signal_name};
pub use plan::{
    Action, Fidelity, Places, Plan, PlannedAction, Points, Policy, Prefix, RunLimits, Span, Timeouts,
};
pub use schedule::{EnabledThreads, Schedule, Segment, Stats, StatsCounter};
pub use signature::{RaceIdentity, Signature};
pub use site::{ModuleIx, Site, SiteIx};
pub use thread::{ThreadId, ThreadIx};
pub use trace::{Context, Counterfactual, Module, Output, Program, Thread, Trace};
