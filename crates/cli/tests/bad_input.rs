//! Programs and files that cannot be run, read or written: unsnarl prints one line with the reason and what to do,
//! returns the right exit status, and leaves nothing half done behind.

mod common;

use common::{Place, UNSNARL};
use std::{fs, os::unix::fs::PermissionsExt, process::Stdio};

/// Compiles a program without instrumentation, and deletes its source.
#[track_caller]
fn compile(place: &Place, name: &str, source: &str, flags: &[&str]) {
    place.compile(name, source, &["gcc"], flags);
    fs::remove_file(place.path(&format!("{name}.c"))).expect("the source is there");
}

/// Runs a line of `sh` with `$unsnarl` in it; returns its status and standard error.
fn sh(place: &Place, line: &str) -> (Option<i32>, String) {
    let mut sh = place.command("sh", &["-c", line]);
    let output = sh.env("unsnarl", UNSNARL).stdout(Stdio::null()).output().expect("a shell");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns the one line that the command prints with this status.
#[track_caller]
fn expect_output(place: &Place, status: i32, line: &str) -> String {
    let (got, output_text) = sh(place, line);
    let output_text = output_text.replace("searching for a schedule that fails\n", "");
    assert_eq!(got, Some(status), "{line}: {output_text}");
    assert_eq!(output_text.lines().count(), 1, "{line}: {output_text}");
    assert!(output_text.starts_with("unsnarl: "), "{line}: {output_text}");
    output_text
}

/// Returns all files, without the directory of traces if that is empty.
fn files(place: &Place) -> Vec<String> {
    let mut found = Vec::new();
    for directory in [place.0.clone(), place.path(".unsnarl")] {
        let entries = fs::read_dir(&directory).into_iter().flatten();
        found.extend(entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()));
    }
    found.retain(|name| name != ".unsnarl");
    found.sort();
    found
}

const NOTHING: &str = "int main(void) { return 0; }";

#[test]
fn uncontrollable_programs_are_rejected_with_advice() {
    let place = Place::new("programs");
    compile(&place, "plain", NOTHING, &[]);
    let plain = fs::read(place.path("plain")).expect("a program");
    let mut narrow = plain.clone();
    narrow[4] = 1;
    place.executable("narrow", narrow);
    let mut foreign = plain.clone();
    foreign[18] = 183;
    place.executable("foreign", foreign);
    place.executable("cut", &plain[..300]);
    place.executable("empty", "");
    place.executable("script", "#!/usr/bin/env python3\n");
    compile(&place, "static", NOTHING, &["-static"]);
    compile(&place, "static-pie", NOTHING, &["-static-pie"]);
    compile(&place, "musl", NOTHING, &["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"]);
    let go = "const char id[] __attribute__((section(\".note.go.buildid\"))) = \"Go\";\nint main(void) { return id[0] == 0; }";
    compile(&place, "go", go, &[]);
    compile(&place, "clang-tsan", "void __tsan_init(void) {}\nint main(void) { return 0; }", &[]);
    compile(&place, "gcc-tsan", NOTHING, &["-fsanitize=thread"]);
    compile(&place, "gcc-asan", NOTHING, &["-fsanitize=address"]);
    compile(&place, "library.so", NOTHING, &["-shared", "-fPIC"]);
    compile(&place, "object.o", NOTHING, &["-c"]);
    for (name, mode) in
        [("setuid", 0o4755), ("setgid", 0o2755), ("not-executable", 0o644), ("object.o", 0o755)]
    {
        let path = place.path(name);
        if !path.exists() {
            fs::write(&path, &plain).expect("a file");
        }
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("permissions");
    }
    fs::create_dir(place.path("folder")).expect("a directory");
    let before = files(&place);
    for (program, reason) in [
        ("nowhere", "give a path, or a name on PATH"),
        ("narrow", "it is a 32-bit program; build it for x86-64"),
        ("foreign", "another kind of processor; build it for x86-64"),
        ("cut", "not an ELF executable, or damaged; name the program itself"),
        ("empty", "not an ELF executable"),
        ("script", "it is a script; run its interpreter instead: python3 "),
        ("static", "statically linked; link it dynamically"),
        ("static-pie", "statically linked; link it dynamically"),
        ("musl", "musl C library; build it for glibc"),
        ("go", "a Go program, whose threads are not pthreads; unsnarl is for"),
        ("clang-tsan", "ThreadSanitizer's own runtime; build it with `unsnarl cc`"),
        ("gcc-tsan", "ThreadSanitizer's own runtime; build it with `unsnarl cc`"),
        ("gcc-asan", "link it with -static-libasan"),
        ("library.so", "a shared library; name a program that uses it"),
        ("object.o", "not an ELF executable"),
        ("setuid", "setuid or setgid, and the system ignores preloaded libraries for those; run a copy"),
        ("setgid", "setuid or setgid"),
        ("not-executable", "it is not an executable file"),
        ("folder", "it is not an executable file"),
    ] {
        for command in ["record", "explore", "hunt"] {
            let output_text = expect_output(&place, 96, &format!("\"$unsnarl\" {command} -- ./{program}"));
            assert!(output_text.contains(reason), "wanted `{reason}`: {output_text}");
        }
    }
    assert_eq!(files(&place), before);
}

#[test]
fn unreadable_files_are_reported_with_advice() {
    let place = Place::new("traces");
    compile(&place, "plain", NOTHING, &[]);
    let output_text = expect_output(&place, 96, "\"$unsnarl\" replay");
    assert!(output_text.contains("no trace here yet: `unsnarl record -- PROG` makes one"), "{output_text}");
    fs::write(place.path("text.snarl"), "text").expect("a file");
    fs::write(place.path("empty.snarl"), "").expect("a file");
    for (trace, reason) in [
        ("nowhere.snarl", "cannot open nowhere.snarl"),
        ("text.snarl", "is not an unsnarl trace; `unsnarl record` and `unsnarl explore` make traces"),
        ("empty.snarl", "is not an unsnarl trace"),
        (".", "cannot be read: Is a directory"),
    ] {
        for command in ["replay", "show", "export", "simplify", "predict", "slice", "report --html page.html"]
        {
            let output_text = expect_output(&place, 96, &format!("\"$unsnarl\" {command} {trace}"));
            assert!(output_text.contains(reason), "{command}, wanted `{reason}`: {output_text}");
        }
    }
    assert_eq!(files(&place), ["empty.snarl", "plain", "text.snarl"]);
}

#[test]
fn partial_files_are_never_left_behind() {
    let place = Place::new("full");
    compile(&place, "plain", NOTHING, &[]);
    let (status, output_text) = sh(&place, "\"$unsnarl\" record -o t.snarl -- ./plain");
    assert_eq!(status, Some(0), "{output_text}");
    expect_output(&place, 96, "\"$unsnarl\" record -o nowhere/t.snarl -- ./plain");
    let before = files(&place);
    // Files may have one block at most, as if the disk were full.
    for command in
        ["report t.snarl --html page.html", "import long.std -o long.snarl", "export long.snarl -o t.std"]
    {
        if command.starts_with("import") {
            let line = |n: u32| format!("T{}|w(V{n})|{n}\n", n % 7);
            fs::write(place.path("long.std"), (0..3000).map(line).collect::<String>()).expect("a file");
        }
        if command.starts_with("export") {
            let (status, output_text) = sh(&place, "\"$unsnarl\" import long.std -o long.snarl");
            assert_eq!(status, Some(0), "{output_text}");
        }
        let before = files(&place);
        let output_text = expect_output(&place, 96, &format!("ulimit -f 1; \"$unsnarl\" {command}"));
        assert!(
            output_text.contains("cannot write") && output_text.contains("File too large"),
            "{output_text}"
        );
        assert_eq!(files(&place), before, "{command}");
    }
    // The log of a run is a file too.
    let output_text = expect_output(&place, 96, "ulimit -f 1; \"$unsnarl\" record -- ./plain");
    assert!(output_text.contains("File too large"), "{output_text}");
    assert!(before.iter().all(|name| files(&place).contains(name)));
}

#[test]
fn special_files_are_written_to_not_replaced() {
    let place = Place::new("special");
    compile(&place, "plain", NOTHING, &[]);
    let (status, output_text) =
        sh(&place, "mkfifo pipe && { cat pipe > copy & \"$unsnarl\" record -o pipe -- ./plain && wait; }");
    assert_eq!(status, Some(0), "{output_text}");
    assert!(fs::metadata(place.path("copy")).expect("a copy").len() > 100);
    assert!(!fs::metadata(place.path("pipe")).expect("the pipe").is_file());
}
