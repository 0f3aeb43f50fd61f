//! Derives steps from an instruction trace of x86-64 code.

mod calls;
mod cfg;
mod code;
mod criterion;
mod first_pass;
mod frames;
mod insns;
mod postdominators;
mod recording;
mod summaries;
mod threads;
mod words;

pub use calls::Call;
pub use cfg::Cfg;
pub use code::{Code, CodeSegment, Function};
pub use frames::register;
pub use insns::Insn;
pub use recording::{Recording, TraceCorrupt};
pub use summaries::{Summary, SummaryQuality};
pub use words::WordSource;
