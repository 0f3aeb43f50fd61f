//! STD, the text format of RAPID and its relatives: `thread|op(operand)|location`, an event a line.
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
//! [`import`] makes one event of each line.
//!
//! - **Threads** are numbered in the order in which they are first mentioned, by a line of their
//!   own, a fork or a join, and keep their names in `Thread::name`. The first is main. A forked
//!   thread is its parent's next child; one that runs without having been forked is taken for the
//!   next child of main. `fork(7)` means the thread `T7` where no thread is called `7`, as some
//!   tools write it.
//! - **Locks and variables**: a decimal number from 1 to 2⁶³ − 1 is its own address; any other name
//!   gets an address from 2⁶³ up and is remembered in [`StdNames`]. Accesses are one byte
//!   wide, so that no two variables overlap. A lock and a variable may have the same name.
//! - **Locations** are offsets in the pseudo-module [`MODULE`].
//! - `begin` as a thread's first line and `end` as its last are its start and end. Elsewhere they mark
//!   transactions, which unsnarl does not have; they are left out and counted, as is `req`.
//! - `wait(L)` gives up the lock; it is taken again just before the thread's next line, which is one
//!   more event. `notify(L)` and `notifyAll(L)` wake who waits on `L` at that time.
//! - Which context switches are preemptions is worked out from locks, joins and waits.
//!
//! Real traces take locks that others hold, take them again, fork twice. All this is kept as it is,
//! with a [`Note`] that has the line number. A line that is not of the form is an error.
//!
//! [`import_streaming`] does the same for text that is too long to be held in memory.
//!
//! # Writing
//!
//! [`export`] writes what STD has words for: locks and read-write locks as locks, of recursive
//! ones the outermost level; a wait on a condition variable as a release and an acquire; creation
//! and joining of threads; reads and writes, atomic or not, told apart by their first address only.
//! The rest is left out and counted. What orders threads by other means (semaphores, barriers,
//! atomics …) is thus lost, and another tool may see races there that are none.
//!
//! # There and back
//!
//! Import, then [`export_with_names`] with the [`StdNames`] of the import, gives the same text byte for
//! byte: of anything that [`export`] wrote, and of any well-formed trace of another tool (lines as
//! above, locks taken and released in pairs, no transactions, `req` or waits). Plain [`export`]
//! does so too, but for threads that forks and joins call otherwise than their own lines do. A `.snarl` file
//! keeps the names of operands.

mod export;
mod import;
mod line;
mod names;
mod note;
mod preemption;
mod streaming;
mod text;

pub use export::{Exported, export, export_with_names};
pub use import::{Imported, StdError, import};
pub use names::StdNames;
pub use note::{Note, Oddity};
pub use streaming::{StreamedImport, import_streaming};

use unsnarl_model::Trace;

/// The pseudo-module whose offsets are the locations of an imported trace.
pub const MODULE: &str = "<std>";

/// Whether a trace came from STD text, not from a run.
#[must_use]
pub fn is_imported(trace: &Trace) -> bool {
    trace.program.path.is_empty() && matches!(&*trace.modules, [module] if module.path == MODULE)
}
