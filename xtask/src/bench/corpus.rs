//! All programs of `programs/`, built as their `.expect` files say.

use crate::workspace::{Workspace, output};
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A built program, and how it is run.
pub(super) struct CorpusProgram {
    /// Language and name: `c/account`.
    pub(super) name: String,
    path: PathBuf,
    args: Vec<String>,
    stdin: PathBuf,
    timeouts: String,
    /// The expected outcome.
    pub(super) outcome: String,
}

impl CorpusProgram {
    /// Returns an unsnarl command for this program, with its options before the program.
    pub(super) fn command(&self, unsnarl: &Path, directory: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(unsnarl);
        command
            .args(args)
            .args(["--timeouts", &self.timeouts, "--timeout", "20s", "--stdin"])
            .arg(&self.stdin);
        command.arg("--").arg(&self.path).args(&self.args);
        command.current_dir(directory).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// Builds all programs below this directory.
pub(super) fn build(workspace: &Workspace, unsnarl: &Path, directory: &Path) -> Result<Vec<CorpusProgram>> {
    let sources = workspace.root.join("programs");
    let rust = build_rust(workspace, unsnarl, directory)?;
    let mut all = Vec::new();
    for language in ["c", "cpp", "rust"] {
        let mut expectations: Vec<PathBuf> = fs::read_dir(sources.join(language))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "expect"))
            .collect();
        expectations.sort();
        for expectation in expectations {
            let keys = read_keys(&expectation)?;
            let stem = expectation.file_stem().context("a name")?.to_string_lossy().into_owned();
            let path = match language {
                "rust" => rust.join(&stem),
                _ => build_c((workspace, unsnarl), &expectation, language, &keys, directory)?,
            };
            let value = |key: &str| keys.get(key).cloned().unwrap_or_default();
            let stdin = directory.join(format!("{language}-{stem}.stdin"));
            fs::write(&stdin, value("stdin").replace("\\n", "\n"))?;
            all.push(CorpusProgram {
                name: format!("{language}/{stem}"),
                path,
                args: words(&value("args")),
                stdin,
                timeouts: Some(value("timeouts")).filter(|rule| !rule.is_empty()).unwrap_or("fair".into()),
                outcome: value("outcome"),
            });
        }
    }
    Ok(all)
}

fn read_keys(path: &Path) -> Result<HashMap<String, String>> {
    let text = fs::read_to_string(path)?;
    let keys = text.lines().filter_map(|line| line.split_once('='));
    Ok(keys.map(|(key, value)| (key.trim().to_owned(), value.trim_start().to_owned())).collect())
}

fn words(text: &str) -> Vec<String> {
    text.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn build_c(
    (workspace, unsnarl): (&Workspace, &Path),
    expectation: &Path,
    language: &str,
    keys: &HashMap<String, String>,
    directory: &Path,
) -> Result<PathBuf> {
    let source = expectation.with_extension(language);
    let folder = directory.join(language);
    fs::create_dir_all(&folder)?;
    let path = folder.join(source.file_stem().context("a name")?);
    let (wrapped, plain) = if language == "c" { ("cc", "gcc") } else { ("c++", "g++") };
    let mut command = if keys.get("instrument").is_some_and(|value| value == "yes") {
        let mut command = Command::new(unsnarl);
        command.arg(wrapped);
        command
    } else {
        Command::new(plain)
    };
    if language == "cpp" {
        command.arg("-std=c++17");
    }
    let flags = keys.get("flags").map(|flags| words(flags)).unwrap_or_default();
    command.arg("-idirafter").arg(workspace.root.join("include"));
    command.args(["-O1", "-g", "-pthread", "-o"]).arg(&path).arg(&source).args(flags);
    output(&mut command, "the compiler")?;
    Ok(path)
}

/// Builds all Rust programs as binaries of one package, with instrumentation, and returns their directory.
fn build_rust(workspace: &Workspace, unsnarl: &Path, directory: &Path) -> Result<PathBuf> {
    let package = directory.join("rust");
    fs::create_dir_all(&package)?;
    let hints = workspace.root.join("crates/hints");
    let mut manifest = format!(
        "[package]\nname = \"programs\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
         [dependencies]\nunsnarl-hints = {{ path = {:?} }}\n",
        hints.display().to_string()
    );
    for entry in fs::read_dir(workspace.root.join("programs/rust"))? {
        let source = entry?.path();
        if source.extension().is_some_and(|extension| extension == "rs") {
            let name = source.file_stem().context("a name")?.display();
            manifest += &format!("[[bin]]\nname = \"{name}\"\npath = {:?}\n", source.display().to_string());
        }
    }
    fs::write(package.join("Cargo.toml"), manifest)?;
    let mut cargo = Command::new(unsnarl);
    cargo.args(["cargo", "build", "--quiet", "--offline"]).current_dir(&package);
    cargo.env_remove("CARGO_TARGET_DIR");
    output(&mut cargo, "unsnarl cargo build")?;
    Ok(package.join("target/unsnarl/x86_64-unknown-linux-gnu/debug"))
}
