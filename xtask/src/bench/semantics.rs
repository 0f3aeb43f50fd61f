//! `cargo xtask bench semantics`: random sequences of operations on threads, signals and timers, natively and under
//! control. A test of the command line compares them; this has it compare many more.

use crate::workspace::{Workspace, run};
use anyhow::Result;

/// The number of sequences if none is given.
const SEQUENCES: u32 = 100_000;

pub(crate) fn bench(sequences: Option<u32>) -> Result<()> {
    let sequences = sequences.unwrap_or(SEQUENCES);
    let workspace = Workspace::find()?;
    let mut compare = workspace.cargo();
    compare
        .args(["test", "--release", "--package", "unsnarl", "--test", "semantics", "native_results"])
        .env("UNSNARL_SEQUENCES", sequences.to_string());
    run(&mut compare, "the comparison")?;
    println!("{sequences} sequences have the same results and error numbers as without control");
    Ok(())
}
