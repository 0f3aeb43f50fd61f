//! The result of a build by `unsnarl cargo`: the paths of the programs, and the code in them that is not instrumented.

use super::cargo::{CargoCall, command};
use crate::output;
use anyhow::Result;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

/// The programs and the native libraries of a build.
#[derive(Debug, Default, PartialEq, Eq)]
struct BuiltArtifacts {
    programs: BTreeSet<PathBuf>,
    /// The static libraries that build scripts have compiled, each with the package.
    native: BTreeSet<(PathBuf, String)>,
    /// The libraries that the programs link dynamically.
    dynamic: BTreeSet<String>,
}

/// Asks cargo what it has just built and describes it; empty if cargo built no program or does not say.
pub(crate) fn describe(call: &CargoCall<'_>) -> Result<String> {
    // Everything is up to date, so cargo only reports.
    let answer = command(call)?
        .args(call.arguments().0)
        .args(["--message-format", "json"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    if !answer.status.success() {
        return Ok(String::new());
    }
    let messages = answer.stdout.split(|&byte| byte == b'\n');
    let built = BuiltArtifacts::read(messages.filter_map(|line| serde_json::from_slice(line).ok()));
    Ok(built.text(|library| fs::read(library).is_ok_and(|bytes| is_instrumented(&bytes))))
}

/// Returns whether the objects in an archive call the runtime.
fn is_instrumented(archive: &[u8]) -> bool {
    const MARK: &[u8] = b"__tsan_";
    archive.windows(MARK.len()).any(|bytes| bytes == MARK)
}

impl BuiltArtifacts {
    /// Reads cargo's messages.
    fn read(messages: impl Iterator<Item = Value>) -> Self {
        let mut built = Self::default();
        for message in messages {
            if let Some(program) = message["executable"].as_str() {
                built.programs.insert(program.into());
            }
            if message["reason"] == "build-script-executed" {
                built.add_native(&message);
            }
        }
        built
    }

    fn add_native(&mut self, message: &Value) {
        let list = |field: &str| -> Vec<String> {
            let values = message[field].as_array().into_iter().flatten();
            values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
        };
        let directories: Vec<PathBuf> = list("linked_paths")
            .iter()
            .map(|path| path.split_once('=').map_or(path.as_str(), |(_, path)| path).into())
            .collect();
        let package = package_name(message["package_id"].as_str().unwrap_or_default());
        for library in list("linked_libs") {
            // `static:+whole-archive=name`, `dylib=name`, `name`
            let (kind, name) = library.split_once('=').unwrap_or(("", &library));
            let file = format!("lib{name}.a");
            let archive =
                directories.iter().map(|directory| directory.join(&file)).find(|path| path.exists());
            match archive {
                Some(archive) => drop(self.native.insert((archive, package.clone()))),
                None if !kind.starts_with("static") => drop(self.dynamic.insert(format!("lib{name}.so"))),
                None => {}
            }
        }
    }

    /// Describes the build; `is_instrumented` inspects a static library.
    fn text(&self, is_instrumented: impl Fn(&Path) -> bool) -> String {
        if self.programs.is_empty() {
            return String::new();
        }
        let mut text = String::new();
        for program in &self.programs {
            text += &format!("built    {}\n", output::quoted(program));
        }
        text += "not instrumented: Rust's standard library";
        for (archive, package) in self.native.iter().filter(|(archive, _)| !is_instrumented(archive)) {
            let name = archive.file_name().unwrap_or_default().to_string_lossy();
            text += &format!(", {name} (of {package})");
        }
        for library in &self.dynamic {
            text += &format!(", {library}");
        }
        text + "\n"
    }
}

/// Returns the name of a package from cargo's identifier: `registry+…#name@1.0`, `path+file:///…/name#1.0` or `name 1.0 (…)`.
fn package_name(id: &str) -> String {
    let (place, rest) = id.split_once('#').unwrap_or(("", id));
    let name = rest.split(['@', ' ']).next().unwrap_or_default();
    let has_no_name = name.starts_with(|c: char| c.is_ascii_digit()) && !place.is_empty();
    let name = if has_no_name { place.rsplit('/').next().unwrap_or_default() } else { name };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn native_libraries_without_instrumentation_are_named() {
        let place = std::env::temp_dir().join(format!("unsnarl-built-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a directory");
        fs::write(place.join("libold.a"), b"!<arch>").expect("an archive");
        fs::write(place.join("libnew.a"), b"!<arch> __tsan_read4").expect("an archive");
        let messages = [
            json!({ "reason": "compiler-artifact", "executable": "/t/debug/prog" }),
            json!({ "reason": "build-script-executed", "package_id": "registry+https://x#old-sys@1.2.3",
                "linked_libs": ["static=old", "static=new", "dylib=ssl"],
                "linked_paths": [format!("native={}", place.display())] }),
        ];
        let built = BuiltArtifacts::read(messages.into_iter());
        let text = built.text(|path| fs::read(path).is_ok_and(|bytes| is_instrumented(&bytes)));
        fs::remove_dir_all(&place).expect("the directory");
        assert_eq!(
            text,
            "built    /t/debug/prog\n\
             not instrumented: Rust's standard library, libold.a (of old-sys), libssl.so\n"
        );
        assert_eq!(BuiltArtifacts::default().text(|_| true), "", "a library");
    }

    #[test]
    fn package_names_are_read_from_all_kinds_of_identifiers() {
        for id in
            ["registry+https://x#zip@1.0", "path+file:///home/me/zip#0.1.0", "zip 0.1.0 (path+file:///x)"]
        {
            assert_eq!(package_name(id), "zip", "{id}");
        }
    }
}
