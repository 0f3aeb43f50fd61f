//! Programs to inspect, compiled on the spot.

#![allow(dead_code, reason = "each test program uses its part")]

use object::{Object, ObjectSymbol};
use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};
use unsnarl_model::{Module, ModuleIx, Site};

/// Returns a folder for this test, the same in every run so that nothing accumulates.
pub(crate) fn folder() -> PathBuf {
    thread_local!(static COUNT: Cell<u32> = const { Cell::new(0) });
    let nth = COUNT.replace(COUNT.get() + 1);
    let test = thread::current().name().unwrap_or("main").to_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("symbols-{test}-{nth}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Compiles `source` with `compiler` and `flags` (words); the source is `file` beside the program.
pub(crate) fn compile(compiler: &str, file: &str, source: &str, flags: &str) -> PathBuf {
    let folder = folder();
    let program = folder.join("program");
    fs::write(folder.join(file), source).unwrap();
    let made = Command::new(compiler)
        .args([file, "-o", "program"])
        .args(flags.split_whitespace())
        .current_dir(&folder)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {compiler}: {error}"));
    assert!(made.status.success(), "{compiler} {flags}: {}", String::from_utf8_lossy(&made.stderr));
    program
}

pub(crate) fn run(program: &Path, args: &[&str]) -> String {
    let run = Command::new(program).args(args).output().unwrap();
    assert!(run.status.success(), "{program:?}: {run:?}");
    String::from_utf8(run.stdout).unwrap()
}

/// Returns the module of a file, loaded at `base`.
pub(crate) fn module(path: &Path, base: u64) -> Module {
    Module { path: path.to_str().unwrap().to_owned(), build_id: Vec::new(), base, size: 1 << 24 }
}

pub(crate) fn site(offset: u64) -> Site {
    Site { module: ModuleIx(0), offset }
}

/// Returns the address and size of a symbol in a file.
pub(crate) fn symbol(path: &Path, name: &str) -> (u64, u64) {
    let bytes = fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let found = file.symbols().find(|s| s.name() == Ok(name)).unwrap_or_else(|| panic!("no {name}"));
    (found.address(), found.size())
}

/// Returns the line of the source that contains this text.
pub(crate) fn line_of(source: &str, text: &str) -> u32 {
    1 + source.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text}")) as u32
}
