//! `cargo xtask test`: everything that must hold before a change goes in.

use crate::tools;
use crate::workspace::Workspace;
use anyhow::{Result, bail};
use std::time::Instant;

/// In order of how soon they fail. The tests run unoptimised as cargo does it, for its arithmetic
/// and debug assertions; the runtime inside the targets is always built optimised.
const STEPS: &[(&str, &[&str])] = &[
    ("formatting", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ("tests", &["test", "--quiet", "--workspace"]),
];

pub(crate) fn test() -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::TESTS)?;
    tools::require_components(|| workspace.cargo())?;
    let start = Instant::now();
    for (name, args) in STEPS {
        println!("== {name}: cargo {}", args.join(" "));
        let step = Instant::now();
        let status = workspace.cargo().args(*args).status()?;
        let seconds = step.elapsed().as_secs_f64();
        if !status.success() {
            bail!("{name} failed after {seconds:.1} s; repeat it with: cargo {}", args.join(" "));
        }
        println!("== {name}: {seconds:.1} s");
    }
    println!("all passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
