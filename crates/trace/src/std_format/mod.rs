//! STD, the text format of RAPID and related tools: `thread|op(operand)|location`, one event per line.
//!
//! ```text
//! T0|fork(T1)|0
//! T0|acq(L)|1
//! T0|w(x)|2
//! T0|rel(L)|3
//! T1|r(x)|4
//! ```
//!
//! # Reading
//!
//! [`import`] turns each line into an event.
//!
//! - **Threads** are numbered in the order of first mention, by a line of their own, a fork or a join, and
//!   keep their names in `Thread::name`. The first is main. A forked thread is its parent's next child; a
//!   thread that runs without having been forked becomes the next child of main. `fork(7)` means the thread
//!   `T7` if no thread is called `7`, as some tools write it.
//! - **Locks and variables**: a decimal number from 1 to 2⁶³ − 1 is its own address; any other name gets an
//!   address from 2⁶³ up and is remembered in [`StdNames`]. Accesses are one byte wide, so that no two
//!   variables overlap. A lock and a variable may have the same name.
//! - **Locations** are offsets in the pseudo-module [`MODULE`].
//! - `begin` as a thread's first line and `end` as its last are its start and end. Elsewhere they mark
//!   transactions, which unsnarl does not have; they are skipped and counted, as is `req`.
//! - `wait(L)` releases the lock; it is acquired again just before the thread's next line, by one additional
//!   event. `notify(L)` and `notifyAll(L)` wake threads that wait on `L` at that time.
//! - Which context switches are preemptions is derived from locks, joins and waits.
//!
//! In real traces, threads acquire locks that others hold, acquire them again, or fork twice. All this is
//! kept as it is, with a [`Note`] that has the line number. A malformed line is an error.
//!
//! [`import_streaming`] does the same for text that is too long for memory.
//!
//! # Writing
//!
//! [`export`] writes the operations that STD can express: locks and read-write locks as locks, of recursive
//! ones the outermost level; a wait on a condition variable as a release and an acquire; creation and joining
//! of threads; reads and writes, atomic or not, identified by their first address only. The rest is skipped
//! and counted. Other ordering (semaphores, barriers, atomics …) is lost, so another tool may report false
//! races there.
//!
//! # Round trip
//!
//! Import followed by [`export_with_names`] with the [`StdNames`] of the import reproduces the text byte for
//! byte: of anything that [`export`] wrote, and of any well-formed trace of another tool (lines as above,
//! locks acquired and released in pairs, no transactions, `req` or waits). Plain [`export`] does so too,
//! except for threads whose name in forks and joins differs from that in their own lines. A `.snarl` file
//! keeps the names of operands.

mod export;
mod import;
mod line;
mod names;
mod note;
mod streaming;
mod text;

pub use export::{ExportSummary, export, export_with_names};
pub use import::{ImportedTrace, StdError, import};
pub use names::StdNames;
pub use note::{Irregularity, Note};
pub use streaming::{StreamedImport, import_streaming};

use unsnarl_model::Trace;

/// The pseudo-module whose offsets are the locations of an imported trace.
pub const MODULE: &str = "<std>";

/// Returns whether a trace was imported from STD text.
#[must_use]
pub fn is_imported(trace: &Trace) -> bool {
    trace.program.path.is_empty() && matches!(&*trace.modules, [module] if module.path == MODULE)
}
