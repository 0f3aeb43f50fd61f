//! `cargo xtask dist`: what a release consists of, in `target/dist`: a tarball with one binary, a Debian package, an SBOM
//! and checksums. `--check` also installs both in a fresh Debian and finds a bug there.

mod baseline;
mod debian_root;

use crate::tools;
use crate::workspace::{Workspace, output, run};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only platform.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The shells that have completions, with the names under which the shells look for them.
const COMPLETIONS: &[(&str, &str)] = &[("bash", "unsnarl"), ("zsh", "_unsnarl"), ("fish", "unsnarl.fish")];

/// Documents in the tarball.
const DOCUMENTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// A release's files.
#[derive(Debug)]
struct Release {
    tarball: PathBuf,
    package: PathBuf,
}

pub(crate) fn dist(check: bool) -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::RELEASE)?;
    let release = build(&workspace)?;
    if check {
        debian_root::check(&workspace, &release)?;
    }
    Ok(())
}

fn build(workspace: &Workspace) -> Result<Release> {
    eprintln!("building unsnarl");
    let binary = workspace.build_unsnarl()?;
    let directory = workspace.scratch("dist")?;
    let name = format!("unsnarl-{}-{TARGET}", env!("CARGO_PKG_VERSION"));
    let content = directory.join(&name);
    std::fs::create_dir(&content)?;
    copy(&binary, &content.join("unsnarl"))?;
    run(Command::new("strip").arg("--strip-debug").arg(content.join("unsnarl")), "strip")?;
    let binary = content.join("unsnarl");
    baseline::check(&binary, &directory.join("cache"))?;

    for document in DOCUMENTS {
        copy(&workspace.root.join(document), &content.join(document))?;
    }
    output(Command::new(&binary).arg("man").arg(content.join("man/man1")), "unsnarl man")?;
    std::fs::create_dir(content.join("completions"))?;
    for (shell, file) in COMPLETIONS {
        let script = output(Command::new(&binary).args(["completions", shell]), "unsnarl completions")?;
        std::fs::write(content.join("completions").join(file), script.stdout)?;
    }

    let tarball = directory.join(format!("{name}.tar.gz"));
    archive(workspace, &directory, &name, &tarball)?;
    let package = package(workspace, &directory, &content)?;
    let sbom = sbom(workspace, &directory, &name)?;
    let names = [&tarball, &package, &sbom].map(|path| path.file_name().unwrap_or_default());
    let sums = output(Command::new("sha256sum").args(names).current_dir(&directory), "sha256sum")?;
    std::fs::write(directory.join("SHA256SUMS"), &sums.stdout)?;
    print!("{}", String::from_utf8_lossy(&sums.stdout));
    Ok(Release { tarball, package })
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Packs a directory. The same content gives the same bytes, whoever packs it and when.
fn archive(workspace: &Workspace, directory: &Path, name: &str, tarball: &Path) -> Result<()> {
    let date = output(
        Command::new("git").args(["log", "-1", "--format=@%ct"]).current_dir(&workspace.root),
        "git log",
    )?;
    let date = String::from_utf8(date.stdout)?;
    run(
        Command::new("tar")
            .args(["--create", "--use-compress-program=gzip --no-name -9", "--sort=name"])
            .args(["--owner=0", "--group=0", "--numeric-owner"])
            .arg(format!("--mtime={}", date.trim()))
            .arg("--file")
            .arg(tarball)
            .arg(name)
            .current_dir(directory),
        "tar",
    )
}

/// Builds the Debian package. Its manual pages and completions are those of the tarball.
fn package(workspace: &Workspace, directory: &Path, content: &Path) -> Result<PathBuf> {
    let cargo_deb = cargo_tool(workspace, "cargo-deb")?;
    // The metadata in the manifest names a directory that does not depend on the version.
    let assets = directory.join("content");
    std::os::unix::fs::symlink(content.file_name().context("the content has no name")?, &assets)?;
    let built = output(
        Command::new(cargo_deb)
            .args(["deb", "--package", "unsnarl", "--no-build", "--no-strip", "--quiet", "--output"])
            .arg(directory)
            .current_dir(&workspace.root),
        "cargo deb",
    )?;
    let path = String::from_utf8(built.stdout)?;
    Ok(PathBuf::from(path.trim()))
}

/// Writes the list of everything that the binary was built from, in the CycloneDX format.
fn sbom(workspace: &Workspace, directory: &Path, name: &str) -> Result<PathBuf> {
    let cargo_cyclonedx = cargo_tool(workspace, "cargo-cyclonedx")?;
    let crates = workspace.root.join("crates");
    let written = format!("{name}.cdx");
    run(
        Command::new(cargo_cyclonedx)
            .args(["cyclonedx", "--quiet", "--format", "json", "--target", TARGET])
            .args(["--override-filename", &written, "--manifest-path"])
            .arg(crates.join("cli/Cargo.toml"))
            .current_dir(&workspace.root),
        "cargo cyclonedx",
    )?;
    // It writes one file for each package of the workspace, into the package's directory.
    let file = format!("{written}.json");
    let path = directory.join(&file);
    std::fs::rename(crates.join("cli").join(&file), &path).context("cargo cyclonedx wrote no file")?;
    for package in std::fs::read_dir(&crates)? {
        let _ = std::fs::remove_file(package?.path().join(&file));
    }
    let _ = std::fs::remove_file(workspace.root.join("xtask").join(&file));
    Ok(path)
}

/// Returns a tool of cargo, which is installed under `target/` the first time.
fn cargo_tool(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let root = workspace.download_dir("tools")?;
    let program = root.join("bin").join(name);
    if !program.is_file() {
        eprintln!("installing {name}");
        run(
            workspace.cargo().args(["install", "--quiet", "--locked", "--root"]).arg(&root).arg(name),
            "cargo install",
        )?;
    }
    Ok(program)
}
