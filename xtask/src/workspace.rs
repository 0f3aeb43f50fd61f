//! The paths of this repository, and helpers to run programs.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The repository.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is in no directory")?.to_owned();
        let metadata =
            output(cargo(&root).args(["metadata", "--format-version", "1", "--no-deps"]), "cargo metadata")?;
        let metadata: Value = serde_json::from_slice(&metadata.stdout)?;
        let target =
            metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
        Ok(Self { root, target: target.into() })
    }

    /// Returns cargo in the repository's root.
    pub(crate) fn cargo(&self) -> Command {
        cargo(&self.root)
    }

    /// Builds the `unsnarl` that users get and returns its path.
    pub(crate) fn build_unsnarl(&self) -> Result<PathBuf> {
        run(self.cargo().args(["build", "--quiet", "--release", "--package", "unsnarl"]), "cargo build")?;
        Ok(self.target.join("release/unsnarl"))
    }

    /// Returns a directory for downloads under `target/`, kept between runs.
    pub(crate) fn download_dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.target.join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Creates an empty directory under `target/`.
    pub(crate) fn scratch(&self, name: &str) -> Result<PathBuf> {
        let path = self.target.join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path).with_context(|| format!("cannot empty {}", path.display()))?;
        }
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs the command with our standard output.
pub(crate) fn run(command: &mut Command, name: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {name}"))?;
    ensure!(status.success(), "{name} failed ({status})");
    Ok(())
}

/// Runs the command and returns its output.
pub(crate) fn output(command: &mut Command, name: &str) -> Result<Output> {
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    let (status, stderr) = (output.status, String::from_utf8_lossy(&output.stderr));
    ensure!(status.success(), "{name} failed ({status}): {}", stderr.trim_end());
    Ok(output)
}
