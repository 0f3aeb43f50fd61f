//! Helpers of the command-line tests: a directory for each test, and ways to run unsnarl in it.
#![allow(dead_code, reason = "each test is a crate of its own and takes what it needs")]

use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

/// The binary under test.
pub(crate) const UNSNARL: &str = env!("CARGO_BIN_EXE_unsnarl");

/// Returns the directory of our small programs.
pub(crate) fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs").canonicalize().expect("programs are there")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the output of a program on both streams.
pub(crate) fn printed(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// A directory for one test, initially empty.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME")).join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        Self(directory)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).expect("a file");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("a file")
    }

    /// Writes an executable file.
    pub(crate) fn executable(&self, name: &str, content: impl AsRef<[u8]>) {
        self.write(name, content);
        fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o755)).expect("permissions");
    }

    /// Returns a command in this directory with empty standard input.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        // The output must not depend on the environment of the tests.
        for inherited in ["CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "RUST_BACKTRACE"] {
            command.env_remove(inherited);
        }
        command
    }

    /// Starts unsnarl with its output piped.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(UNSNARL, args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("unsnarl runs")
    }

    /// Runs unsnarl, with any exit status.
    pub(crate) fn ends(&self, args: &[&str]) -> Output {
        self.command(UNSNARL, args).output().expect("unsnarl runs")
    }

    /// Runs any program, checks its exit status, and returns its output on both streams.
    #[track_caller]
    pub(crate) fn runs(&self, status: i32, program: &str, args: &[&str]) -> (String, String) {
        let Output { status: got, stdout, stderr } = self.command(program, args).output().expect("it runs");
        let (stdout, stderr) = (text(&stdout), text(&stderr));
        assert_eq!(got.code(), Some(status), "{program} {args:?}\n{stdout}\n{stderr}");
        (stdout, stderr)
    }

    /// Runs unsnarl, checks its exit status, and returns its output on both streams.
    #[track_caller]
    pub(crate) fn exits(&self, status: i32, args: &[&str]) -> (String, String) {
        self.runs(status, UNSNARL, args)
    }

    /// Returns only standard output.
    #[track_caller]
    pub(crate) fn unsnarl(&self, status: i32, args: &[&str]) -> String {
        self.exits(status, args).0
    }

    #[track_caller]
    pub(crate) fn json(&self, status: i32, args: &[&str]) -> Value {
        let (stdout, stderr) = self.exits(status, args);
        serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("unsnarl {args:?}: {e}\n{stdout}\n{stderr}"))
    }

    /// Compiles a source as `name.c` into `name` with `compiler`.
    #[track_caller]
    pub(crate) fn compile(&self, name: &str, source: &str, compiler: &[&str], flags: &[&str]) {
        let file = format!("{name}.c");
        self.write(&file, source);
        let usual = ["-O1", "-g", "-pthread", "-o", name, &file];
        self.runs(0, compiler[0], &[&compiler[1..], &usual, flags].concat());
    }

    /// Compiles with instrumentation.
    #[track_caller]
    pub(crate) fn cc(&self, name: &str, source: &str) {
        self.compile(name, source, &[UNSNARL, "cc"], &[]);
    }

    /// Builds a program of `programs/` here under its own name, with its source beside it; returns the name.
    #[track_caller]
    pub(crate) fn program(&self, source: &str) -> String {
        let file = source.rsplit('/').next().expect("a name");
        let (name, extension) = file.split_once('.').expect("a name with its language");
        fs::copy(programs().join(source), self.path(file)).expect("a program");
        match extension {
            "rs" => {
                let manifest = format!(
                    "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
                     [profile.dev]\nopt-level = 1\n[[bin]]\nname = \"{name}\"\npath = \"{file}\"\n"
                );
                self.write("Cargo.toml", manifest);
                self.unsnarl(0, &["cargo", "build", "--quiet", "--offline"]);
                let built = format!("target/unsnarl/x86_64-unknown-linux-gnu/debug/{name}");
                fs::copy(self.path(&built), self.path(name)).expect("what was built");
            }
            "cpp" => {
                self.unsnarl(0, &["c++", "-std=c++17", "-O1", "-g", "-pthread", "-o", name, file]);
            }
            _ => {
                self.unsnarl(0, &["cc", "-O1", "-g", "-pthread", "-o", name, file]);
            }
        }
        name.to_owned()
    }
}
