//! The fewest context switches that still fail.
//!
//! A failing trace with hundreds of context switches becomes one with the two or three that matter.
//! [`statics`] changes the order of its events without running anything. Nothing here does I/O or starts a
//! process.

#![forbid(unsafe_code)]

pub mod statics;
