//! What one machine instruction reads and writes, and which register values tell where.
//!
//! An instruction trace holds no operands: it holds the addresses of the instructions executed and, for a
//! memory operand whose address is not in the code itself, the value of its address registers. Who writes
//! the trace (inside the target) and who reads it must agree to the word on which values those are: both
//! ask [`BlockLayout::of`].
//!
//! No I/O, no std: the same code runs inside the target.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod block;
mod effects;
mod layout;
mod registers;
mod wait_loops;

pub use block::static_successor;
pub use effects::{CopyKind, Effects};
pub use iced_x86 as iced;
pub use layout::{Address, BlockLayout, MemoryAccess, Sample};
pub use registers::{FLAGS, REGISTERS, RegisterPart, gpr, part};
pub use wait_loops::wait_loop_at;

/// Instructions that a block may have at most: their number shares a word with its address.
pub const MAX_BLOCK: usize = 255;
