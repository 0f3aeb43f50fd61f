//! The dynamic slice of a failure, across threads.
//!
//! After "Dynamic slicing of multithreaded programs for race detection": the backward closure over
//! read-after-write and control dependences ([`closure`]), and the neighbours by write-after-write and
//! write-after-read dependences between threads that nothing orders ([`races`]).
//!
//! The algorithms know [`Step`]s only; [`x86`] makes steps of an instruction trace. No I/O.

#![forbid(unsafe_code)]

mod backward;
mod hash;
mod race;
mod reduce;
mod slice;
mod step;
mod steps;
mod wants;
pub mod x86;

pub use backward::{Criterion, Straight, closure};
pub use race::{Counts, Orders, counts, races};
pub use reduce::{Extent, Reduction, Until, ranked, ranks, reduce};
pub use slice::{Node, RaceEdge, RaceKind, Reason, Slice};
pub use step::{CELLS, Control, Flow, History, Place, Span, Step};
pub use steps::Steps;
pub use wants::{Consumer, Via};
