//! The registers and memory that a machine instruction reads and writes, and the values needed to compute its
//! addresses.
//!
//! An instruction trace holds no operands: it holds the addresses of the executed instructions and, for a
//! memory operand whose address is not in the code itself, the value of its address registers. The writer of
//! the trace (inside the target) and its readers must agree exactly on these values: both use
//! [`BlockLayout::of`].
//!
//! The crate has no I/O and no std, because the same code runs inside the target.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod block;
mod effects;
mod layout;
mod partial_store;
mod registers;
mod wait_loops;

pub use block::static_successor;
pub use effects::{CopyKind, Effects};
pub use iced_x86 as iced;
pub use layout::{Address, BlockLayout, MemoryAccess, Sample};
pub use partial_store::is_partial_store;
pub use registers::{FLAGS, REGISTERS, RegisterPart, gpr, part};
pub use wait_loops::{closed_loop_at, wait_loop_at};

/// The maximum number of instructions of a block: it shares a word with the block's address.
pub const MAX_BLOCK: usize = 255;
