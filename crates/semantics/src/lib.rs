//! The meaning of events.
//!
//! An event is four words and a few flags; their meaning depends on the operation. [`Step::decode`] turns an
//! event into a typed [`Operation`] with an [`OpResult`]. Operations are defined by family, one file for each:
//!
//! - [`touches`]: the objects and bytes that an operation reads or writes. Two operations of different threads
//!   that touch nothing in common are independent ([`dependence`]);
//! - [`edges`]: the happens-before edges that it begins or ends;
//! - [`lock_effects`]: the locks that it acquires or releases;
//! - [`Machine`]: the state of all objects, whether an operation is enabled, and its effect.
//!
//! The table at the head of each family's file is the specification; docs/operations.md has all of them.
//! Every analysis uses these definitions. Only the runtime's own model and the checker of witnesses in
//! `unsnarl-predict` are separate on purpose, so that tests can compare them.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod barrier;
mod blocks;
mod cond;
mod contradiction;
pub mod dependence;
mod descriptor;
mod edge;
mod file;
mod futex;
mod lock_effects;
mod machine;
mod memory;
mod mutex;
mod objects;
mod once;
pub mod preemption;
mod range;
mod result;
mod rwlock;
mod scheduling;
mod semaphore;
mod signal;
mod step;
mod store_buffer;
mod thread;
mod touch;

pub use barrier::BarrierOp;
pub use blocks::Blocks;
pub use cond::CondOp;
pub use contradiction::Contradiction;
pub use descriptor::{DescriptorOp, DescriptorOpKind};
pub use edge::{AtomicEdge, Edge, SyncPoint, acquires, edges, releases};
pub use file::{FileOp, FileOpKind};
pub use futex::FutexOp;
pub use lock_effects::{HeldLock, LockEffect, LockMode, lock_effects};
pub use machine::{Blocker, CondOrFutexWait, Enabled, Expectations, Hold, LockChange, Machine};
pub use memory::{Access, AccessKind, AccessValue, MemoryOp};
pub use mutex::MutexOp;
pub use objects::{Object, ObjectIx, Objects};
pub use once::OnceOp;
pub use range::ByteRange;
pub use result::{OpResult, succeeded};
pub use rwlock::RwLockOp;
pub use scheduling::SchedulingOp;
pub use semaphore::SemaphoreOp;
pub use signal::SignalOp;
pub use step::{Operation, Step};
pub use store_buffer::StoreBuffers;
pub use thread::{ThreadNumber, ThreadOp};
pub use touch::{AccessMode, SharedObject, Touch, depend, touches};
