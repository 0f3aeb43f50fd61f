//! Programs with unusual control transfers, and programs of the distribution: traced, they behave as they do without
//! tracing.

use super::{Place, common::UNSNARL};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

fn compile(place: &Place, compiler: &str, source: &str, args: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slice/ways").join(source);
    let status = Command::new(compiler).arg("-g").arg(&source).args(args).current_dir(&place.0).status();
    assert!(status.expect("a compiler").success(), "{compiler} {}", source.display());
}

/// Traces the program by translation and by single-stepping. Its status says whether its result is right; a run with
/// another status is not the recorded one.
fn traced_as_stepped(place: &Place, program: &[&str]) {
    let label = program.join(" ");
    let report = place.unsnarl(100, &[&["record", "--json", "-o", "t.snarl", "--"], program].concat());
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["outcome"]["status"], 3, "{label}: {report}");
    let translated = place.unsnarl(0, &["slice", "t.snarl", "--dump"]);
    let stepped = place.unsnarl(0, &["slice", "t.snarl", "--dump", "--step"]);
    assert!(translated.lines().count() > 100, "{label}");
    assert_eq!(translated.lines().zip(stepped.lines()).position(|(a, b)| a != b), None, "{label}");
    assert_eq!(translated.len(), stepped.len(), "{label}");
}

#[test]
fn all_control_transfers_are_traced() {
    let place = Place::new("ways");
    compile(&place, "gcc", "libway.c", &["-shared", "-fPIC", "-o", "libway.so"]);
    for (number, level) in ["-O0", "-O2"].iter().enumerate() {
        let pie = if number == 0 { "-no-pie" } else { "-pie" };
        compile(&place, "gcc", "ways.c", &[level, pie, "-o", "ways", "-ldl"]);
        for case in ["longjmp", "switch", "tail", "callback", "signal", "dlopen"] {
            traced_as_stepped(&place, &["./ways", case]);
        }
    }
}

#[test]
fn exceptions_through_cleanup_frames_are_traced() {
    let place = Place::new("ways-cpp");
    for level in ["-O0", "-O2"] {
        compile(&place, "g++", "ways.cpp", &[level, "-o", "ways"]);
        traced_as_stepped(&place, &["./ways"]);
    }
}

/// Records a program that writes a file, traces it with its libraries, and checks the file that the traced run wrote.
fn writes_the_same(name: &str, program: &[&str], traced: &[&str], file: &str, lines: usize) {
    let place = Place::new(name);
    let text: String =
        (0..lines as u64).map(|n| format!("{:08} text\n", n * 7_919_993 % 99_999_989)).collect();
    place.write("lines", text);
    place.unsnarl(0, &[&["record", "-o", "t.snarl", "--"], program].concat());
    fs::remove_file(place.path(file)).expect("its result");
    let mut args = vec!["slice", "t.snarl", "--at", "nothing.c:1"];
    args.extend(traced.iter().flat_map(|path| ["--library", path]));
    // The run matched the recording; only then it is found that there is no such line.
    place.unsnarl(2, &args);
    assert!(!place.path(file).exists(), "{name}: what the traced run writes is undone");
}

fn path_of(program: &str) -> Option<String> {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stderr(Stdio::null()).output();
    let path = String::from_utf8(found.ok()?.stdout).ok()?;
    fs::canonicalize(path.trim()).ok()?.to_str().map(str::to_owned)
}

#[test]
fn traced_xz_compresses_with_two_threads() {
    let xz = path_of("xz").expect("xz is installed");
    let libraries = Command::new("ldd").arg(&xz).output().expect("ldd").stdout;
    let libraries = String::from_utf8_lossy(&libraries).into_owned();
    let lzma = libraries.split_whitespace().find(|word| word.starts_with('/') && word.contains("lzma"));
    let lzma = fs::canonicalize(lzma.expect("liblzma")).expect("a file");
    let program = ["xz", "-T2", "-0", "--block-size=32KiB", "-k", "-f", "lines"];
    writes_the_same("xz", &program, &[&xz, lzma.to_str().expect("a path")], "lines.xz", 5_000);
}

/// It starts threads only for many lines; sorted input needs fewer comparisons.
#[test]
fn traced_sort_sorts_with_threads() {
    let sort = path_of("sort").expect("sort is installed");
    let place = Place::new("sort");
    let text: String = (0..140_000).map(|n| format!("{}\n", 10_000 + n / 14)).collect();
    place.write("lines", text);
    let run = |status: i32, args: &[&str]| {
        let output = place.command(UNSNARL, args).env("LC_ALL", "C").output().expect("unsnarl runs");
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        output.stdout
    };
    let program = ["--", "sort", "--parallel=4", "-o", "sorted", "lines"];
    let report = run(0, &[&["record", "--json", "-o", "t.snarl"], &program[..]].concat());
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    assert!(report["stats"]["threads"].as_u64() > Some(1), "{report}");
    fs::remove_file(place.path("sorted")).expect("what it wrote");
    run(2, &["slice", "t.snarl", "--at", "nothing.c:1", "--library", &sort]);
    assert!(!place.path("sorted").exists(), "what the traced run writes is undone");
}
