//! Slices of programs with a known cause, at each level of optimisation and with each compiler.
//!
//! Each program has marks in its source. `ROOT`: the statements to change for a fix. `CAUSE`: how the failure follows
//! from them. All of these are in the slice; a reader who starts at the top reaches the first `ROOT` within five lines,
//! and has read at most five others when all of them were seen. `UNRELATED`: not in the slice, nor is any line of
//! `noise.h`.

use super::{Place, Value, common::UNSNARL, slice_of};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Lines to read before the root.
const MAX_READ: usize = 5;

fn programs(extension: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slice/programs");
    let files = fs::read_dir(directory).expect("programs").map(|entry| entry.expect("a file").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    files
}

/// Returns the lines of a source with this mark.
fn marked(source: &str, mark: &str) -> BTreeSet<u64> {
    let numbered = (1..).zip(source.lines());
    numbered.filter(|(_, line)| line.contains(mark)).map(|(number, _)| number).collect()
}

/// Compiles, finds a failing schedule, slices, and checks the slice against the marks.
fn explains(source: &Path, compiler: &str, level: &str) {
    let name = source.file_name().expect("a name").to_string_lossy().into_owned();
    let label = format!("{name} by {compiler} {level}");
    let place = Place::new(&label.replace([' ', '+'], "-"));
    let mut command = match compiler {
        "rustc" => Command::new("rustc"),
        _ => Command::new(UNSNARL),
    };
    match compiler {
        "rustc" => command.args(["-g", "--edition", "2024", "-C", &format!("opt-level={}", &level[2..])]),
        "gcc" | "clang" => {
            command.arg("cc").env("UNSNARL_CC", compiler).args(["-g", "-w", "-pthread", level])
        }
        _ => command.arg("c++").env("UNSNARL_CXX", compiler).args(["-g", "-w", "-pthread", level]),
    };
    command.arg("-o").arg(place.path("program")).arg(source).stderr(Stdio::null());
    assert!(command.status().expect("a compiler").success(), "{label}");
    // One run at a time, because some programs write a file.
    let explore = [
        "explore",
        "-j",
        "1",
        "--strategy",
        "random",
        "--runs",
        "3000",
        "--seed",
        "1",
        "-o",
        "t.snarl",
        "--",
    ];
    place.unsnarl(100, &[&explore[..], &["./program"]].concat());
    let slice = slice_of(&place, &[]);

    let text = fs::read_to_string(source).expect("a source");
    let lines: Vec<&Value> = slice["lines"].as_array().expect("lines").iter().collect();
    let is_in = |line: &&&Value, file: &str| line["file"].as_str().is_some_and(|path| path.ends_with(file));
    let numbers: Vec<u64> =
        lines.iter().filter(|line| is_in(line, &name)).filter_map(|line| line["line"].as_u64()).collect();
    let found: BTreeSet<u64> = numbers.iter().copied().collect();
    let (root, cause) = (marked(&text, "ROOT"), marked(&text, "CAUSE"));
    assert!(!root.is_empty(), "{label}: it has no mark");
    let missing: Vec<u64> = root.union(&cause).filter(|line| !found.contains(line)).copied().collect();
    assert!(missing.is_empty(), "{label}: {missing:?} is not in {numbers:?}");
    let unrelated: Vec<u64> = marked(&text, "UNRELATED").intersection(&found).copied().collect();
    assert!(unrelated.is_empty(), "{label}: {unrelated:?} is in {numbers:?}");
    assert!(!lines.iter().any(|line| is_in(&line, "noise.h")), "{label}: noise.h is in {lines:#?}");
    let places: Vec<usize> = (1..).zip(&numbers).filter(|(_, l)| root.contains(l)).map(|(n, _)| n).collect();
    let (first, last) = (places[0], places[places.len() - 1]);
    let others = last - places.len();
    assert!(
        first <= MAX_READ && others <= MAX_READ,
        "{label}: the roots are lines {places:?} in {numbers:?}"
    );
}

const LEVELS: [&str; 3] = ["-O0", "-O1", "-O2"];

/// Checks all levels with the first compiler, and one with the other.
fn each(extension: &str, compilers: [&str; 2]) {
    for (number, source) in programs(extension).iter().enumerate() {
        LEVELS.iter().for_each(|level| explains(source, compilers[0], level));
        explains(source, compilers[1], LEVELS[number % 3]);
    }
}

#[test]
fn slices_of_c_programs_match_expectations() {
    each("c", ["gcc", "clang"]);
}

#[test]
fn slices_of_cpp_programs_match_expectations() {
    each("cpp", ["g++", "clang++"]);
}

#[test]
fn slices_of_rust_programs_match_expectations() {
    for source in programs("rs") {
        LEVELS.iter().for_each(|level| explains(&source, "rustc", level));
    }
}
