//! The dynamic slice of a failure, across threads.
//!
//! After "Dynamic slicing of multithreaded programs for race detection": the backward closure over
//! read-after-write and control dependences ([`closure`]), and the unordered write-after-write and
//! write-after-read dependences between threads ([`races`]).
//!
//! The algorithms operate only on [`InstructionStep`]s; [`x86`] derives steps from an instruction trace. The crate does
//! no I/O.

#![forbid(unsafe_code)]

mod backward;
mod hash;
mod pending_uses;
mod race;
mod reduce;
mod slice;
mod step;
mod steps;
pub mod x86;

pub use backward::{Criterion, StraightLine, closure};
pub use pending_uses::{Consumer, DataPath};
pub use race::{Counts, OrderingInput, counts, races};
pub use reduce::{Extent, Reduction, ThreadExtent, ranks, reduce, resolve_ranks};
pub use slice::{RaceEdge, RaceKind, Reason, Slice, SliceNode};
pub use step::{ByteSpan, CELLS, Control, Flow, History, InstructionIx, InstructionStep};
pub use steps::StepSet;
