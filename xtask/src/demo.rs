//! `cargo xtask demo`: from a program that hardly ever fails to the interleaving that breaks it.

use crate::tools;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// A failure was found, or reproduced.
const FAILED: i32 = 100;

pub(crate) fn demo() -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let unsnarl = workspace.build_unsnarl()?;
    let directory = workspace.scratch("demo")?;
    let demo = Demo { unsnarl: &unsnarl, directory: &directory };
    std::fs::copy(workspace.root.join("xtask/demo/account.c"), directory.join("account.c"))?;

    demo.say("account.c: two threads pay into one account. Compile it so that its accesses are seen:");
    demo.unsnarl(&["cc", "-O1", "-g", "-pthread", "account.c", "-o", "account"], 0)?;
    demo.say("By itself it works, nearly always:");
    println!("$ ./account");
    Command::new("./account").current_dir(&directory).status().context("cannot run ./account")?;
    demo.say("Search for a schedule that breaks it:");
    demo.unsnarl(
        &["explore", "--runs", "10000", "--seed", "1", "-o", "lost.snarl", "--", "./account"],
        FAILED,
    )?;
    demo.say("The same schedule fails the same way, every time:");
    demo.unsnarl(&["replay", "lost.snarl"], FAILED)?;
    demo.say("And this is what happened, one column for each thread:");
    demo.unsnarl(&["show", "lost.snarl"], 0)?;
    demo.say(&format!(
        "Next: guard the balance with a mutex in {d}/account.c and explore again,\n\
         or take a program of your own: CC=\"{u} cc\" make, then {u} explore -- ./program",
        d = directory.display(),
        u = unsnarl.display(),
    ));
    Ok(())
}

struct Demo<'a> {
    unsnarl: &'a Path,
    directory: &'a Path,
}

impl Demo<'_> {
    fn say(&self, text: &str) {
        println!("\n{text}");
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
