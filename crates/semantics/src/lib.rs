//! The meaning of events.
//!
//! An event is four words and a few flags; their meaning depends on the operation. [`OpResult`] says how an
//! operation ended, [`dependence`] which events must keep their order, and [`Holders`] which threads hold a
//! lock. Every analysis uses these
//! definitions; only the runtime's own model and the checker of witnesses in `unsnarl-predict` are separate
//! on purpose, so that tests can compare them.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod dependence;
mod holders;
mod result;

pub use holders::Holders;
pub use result::{OpResult, succeeded};
