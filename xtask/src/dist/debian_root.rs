//! Installs a release in a fresh Debian stable, and finds a bug there. It needs root.

use super::Release;
use crate::tools;
use crate::workspace::{Workspace, output, run};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Exit status: a failure was found.
const FAILED: i32 = 100;

pub(super) fn check(workspace: &Workspace, release: &Release) -> Result<()> {
    if !tools::is_root() {
        println!("skipped: installing the release in a fresh Debian needs root");
        return Ok(());
    }
    tools::require(tools::DEBIAN_ROOT)?;
    tools::require(tools::COMPILERS)?;
    let base = workspace.scratch("debian-root")?;
    let root = base.join("root");
    eprintln!("installing Debian stable");
    let mirror = mirror()?;
    let debootstrap = ["--variant=minbase", "stable"];
    output(Command::new("debootstrap").args(debootstrap).arg(&root).arg(&mirror), "debootstrap")?;
    let root = DebianRoot::mount(root)?;

    // The program under test comes from this machine; the fresh system has no compiler.
    let source = workspace.root.join("programs/c/abba_deadlock.c");
    let program = root.0.join("root/abba");
    run(Command::new("gcc").args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(source), "gcc")?;

    let start = Instant::now();
    let tarball = release.tarball.file_name().context("the tarball has no name")?;
    std::fs::copy(&release.tarball, root.0.join("root").join(tarball))?;
    root.run(&format!("tar xzf {} && mv unsnarl-*/ unpacked", tarball.display()), 0)?;
    let page = root.run("unpacked/unsnarl hunt -- ./abba", FAILED)?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(page.contains("deadlock: 2 threads wait for each other"), "hunt printed:\n{page}");
    println!("tarball: from the copy to the first bug in {seconds:.1} s");
    print!("{}", root.run("unpacked/unsnarl self-check", 0)?);

    let package = release.package.file_name().context("the package has no name")?;
    std::fs::copy(&release.package, root.0.join("root").join(package))?;
    root.run(&format!("dpkg --install {}", package.display()), 0)?;
    print!("{}", root.run("unsnarl self-check", 0)?);
    let files = root.run("dpkg --listfiles unsnarl", 0)?;
    for expected in ["man1/unsnarl-hunt.1.gz", "bash-completion/completions/unsnarl", "_unsnarl", "unsnarl.fish"]
    {
        ensure!(files.contains(expected), "the package lacks {expected}:\n{files}");
    }
    println!("package: installs, works, has manual pages and completions");
    Ok(())
}

/// Returns the mirror that this machine installs from.
fn mirror() -> Result<String> {
    let sites = output(
        Command::new("apt-get").args(["indextargets", "--format", "$(SITE)", "Created-By: Packages"]),
        "apt-get indextargets",
    )?;
    let sites = String::from_utf8(sites.stdout)?;
    let site = sites.lines().find(|site| !site.contains("security"));
    Ok(site.context("apt-get knows no mirror; run apt-get update")?.to_owned())
}

/// A Debian in a directory, with /proc mounted while this exists.
struct DebianRoot(PathBuf);

impl DebianRoot {
    fn mount(root: PathBuf) -> Result<Self> {
        let proc = root.join("proc");
        run(Command::new("mount").args(["-t", "proc", "proc"]).arg(&proc), "mount")?;
        Ok(Self(root))
    }

    /// Runs a command in the root's home directory, and returns what it printed.
    fn run(&self, command: &str, expected: i32) -> Result<String> {
        let output = Command::new("chroot")
            .arg(&self.0)
            .args(["/usr/bin/env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "/bin/sh", "-c"])
            .arg(format!("cd && {command}"))
            .output()
            .context("cannot run chroot")?;
        let (printed, messages) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let status = output.status;
        ensure!(status.code() == Some(expected), "`{command}` ended with {status}:\n{printed}{messages}");
        Ok(printed.into_owned())
    }
}

impl Drop for DebianRoot {
    fn drop(&mut self) {
        unmount(&self.0.join("proc"));
    }
}

fn unmount(path: &Path) {
    let status = Command::new("umount").arg(path).status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("xtask: cannot unmount {}", path.display());
    }
}
