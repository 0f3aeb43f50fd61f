//! Compiles the programs.

use crate::{expectation::Expectation, programs};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

const UNSNARL: &str = env!("CARGO_BIN_EXE_unsnarl");

/// Compiles a program and returns its path.
pub(crate) fn build(source: &Path, expected: &Expectation) -> PathBuf {
    let folder = source.parent().and_then(Path::file_name).unwrap_or_default();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs").join(folder);
    fs::create_dir_all(&directory).expect("a directory for programs");
    let program = directory.join(source.file_stem().expect("a name"));
    let mut command = match (folder.to_str(), expected.instrument) {
        (Some("c"), false) => Command::new("gcc"),
        (Some("cpp"), false) => Command::new("g++"),
        (Some("c"), true) => with_argument(UNSNARL, "cc"),
        (Some("cpp"), true) => with_argument(UNSNARL, "c++"),
        (_, false) => {
            let mut rustc = Command::new("rustc");
            rustc.args(["-g", "--edition", "2024", "-o"]).arg(&program).arg(source).args(&expected.flags);
            finish(rustc, source);
            return program;
        }
        (_, true) => return instrumented_rust().join(source.file_stem().expect("a name")),
    };
    if folder == "cpp" {
        command.arg("-std=c++17");
    }
    command.args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(source).args(&expected.flags);
    finish(command, source);
    program
}

/// Returns the instrumented build of a correct Rust program that needs no instrumentation.
pub(crate) fn instrumented_too(source: &Path, expected: &Expectation) -> Option<PathBuf> {
    let is_rust = source.extension().is_some_and(|e| e == "rs");
    (is_rust && expected.correct && !expected.instrument)
        .then(|| instrumented_rust().join(source.file_stem().expect("a name")))
}

fn with_argument(program: &str, argument: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(argument);
    command
}

/// Builds all Rust programs with instrumentation at once, as binaries of one package.
fn instrumented_rust() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs/instrumented-rust");
            fs::create_dir_all(&package).expect("a directory for the package");
            let mut manifest = format!(
                "[package]\nname = \"programs\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
                 [dependencies]\nunsnarl-hints = {{ path = {:?} }}\n",
                programs().with_file_name("crates/hints").display().to_string()
            );
            for entry in programs().join("rust").read_dir().expect("Rust programs") {
                let source = entry.expect("an entry").path();
                if source.extension().is_some_and(|e| e == "rs") {
                    let name = source.file_stem().expect("a name").display();
                    manifest +=
                        &format!("[[bin]]\nname = \"{name}\"\npath = {:?}\n", source.display().to_string());
                }
            }
            fs::write(package.join("Cargo.toml"), manifest).expect("a manifest");
            let mut command = with_argument(UNSNARL, "cargo");
            command
                .args(["build", "--quiet", "--offline"])
                .current_dir(&package)
                .env_remove("CARGO_TARGET_DIR")
                .env_remove("CARGO_INCREMENTAL");
            finish(command, &package);
            package.join("target/unsnarl/x86_64-unknown-linux-gnu/debug")
        })
        .clone()
}

fn finish(mut command: Command, label: &Path) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{} does not compile: {}",
        label.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}
