//! `cargo xtask demo`: from a program that hardly ever fails to the interleaving that makes it fail.

use crate::tools;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Exit status: a failure was found or reproduced.
const FAILED: i32 = 100;

/// Number of runs without unsnarl.
const BY_ITSELF: usize = 200;

pub(crate) fn demo() -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let unsnarl = workspace.build_unsnarl()?;
    let directory = workspace.scratch("demo")?;
    let demo = Demo { unsnarl: &unsnarl, directory: &directory };
    for file in ["account.c", "account_locked.c"] {
        std::fs::copy(workspace.root.join("examples").join(file), directory.join(file))?;
    }

    demo.print_heading("examples/account.c: two threads pay into one account.");
    demo.print_function("account.c", "static void *deposit")?;
    demo.print_heading(
        "Compile it with `unsnarl cc` instead of cc, so that unsnarl sees its memory accesses:",
    );
    demo.unsnarl(&["cc", "-O1", "-g", "-pthread", "account.c", "-o", "account"], 0)?;
    demo.by_itself()?;
    demo.print_heading("Search for a schedule in which it fails:");
    demo.unsnarl(&["explore", "-o", "lost.snarl", "--", "./account"], FAILED)?;
    demo.print_heading("Replay that schedule. It fails in the same way every time:");
    demo.unsnarl(&["replay", "lost.snarl"], FAILED)?;
    demo.print_heading("The interleaving, one column per thread, time going down:");
    demo.unsnarl(&["show", "lost.snarl"], 0)?;
    demo.print_heading(
        "All in one command: find, simplify, explain, and write a page to look at and to share:",
    );
    demo.unsnarl(&["hunt", "--html", "report.html", "--", "./account"], FAILED)?;
    demo.print_heading(
        "Both threads read 100 before either had written. The same program with a lock around the deposit:",
    );
    demo.unsnarl(&["cc", "-O1", "-g", "-pthread", "account_locked.c", "-o", "account_locked"], 0)?;
    demo.unsnarl(&["explore", "--runs", "1000", "--", "./account_locked"], 0)?;
    demo.print_heading("Does the lock fix it? Try the failing schedule on the new build:");
    demo.unsnarl(&["replay", "lost.snarl", "--program", "./account_locked"], 0)?;
    demo.print_heading(&format!("Open the report in a browser: {}", directory.join("report.html").display()));
    demo.print_heading(&format!(
        "Now a program of your own: CC=\"{u} cc\" make, then {u} hunt -- ./program",
        u = unsnarl.display(),
    ));
    Ok(())
}

struct Demo<'a> {
    unsnarl: &'a Path,
    directory: &'a Path,
}

impl Demo<'_> {
    fn print_heading(&self, text: &str) {
        println!("\n{text}");
    }

    /// Prints the lines of a function, up to its closing brace.
    fn print_function(&self, file: &str, head: &str) -> Result<()> {
        let source = std::fs::read_to_string(self.directory.join(file))?;
        let lines = source.lines().skip_while(|line| !line.starts_with(head));
        for line in lines.take_while(|line| !line.starts_with('}')) {
            println!("    {line}");
        }
        println!("    }}");
        Ok(())
    }

    /// Runs the program without control, many times.
    fn by_itself(&self) -> Result<()> {
        let mut right = 0;
        for _ in 0..BY_ITSELF {
            let output = Command::new("./account").current_dir(self.directory).output();
            right += usize::from(output.context("cannot run ./account")?.status.success());
        }
        self.print_heading(&format!("Without unsnarl, {right} of {BY_ITSELF} runs gave the right balance."));
        Ok(())
    }

    fn unsnarl(&self, args: &[&str], expected: i32) -> Result<()> {
        let shown = format!("unsnarl {}", args.join(" "));
        println!("$ {shown}");
        let status = Command::new(self.unsnarl).args(args).current_dir(self.directory).status();
        let status = status.with_context(|| format!("cannot run {shown}"))?;
        ensure!(status.code() == Some(expected), "`{shown}` ended with {status}, not with status {expected}");
        Ok(())
    }
}
