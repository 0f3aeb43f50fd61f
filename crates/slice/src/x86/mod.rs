//! Steps from an instruction trace of x86-64 code.

mod cfg;
mod code;
mod criterion;
mod postdominators;
mod recording;
mod summaries;

pub use cfg::Cfg;
pub use code::{Code, Function, Segment};
pub use recording::{Call, Damaged, Insn, Recording};
pub use summaries::{Knowledge, Summary};
