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
    // `hunt` says first what it will examine.
    let is_progress = |line: &&str| line.starts_with("searching for") || line.starts_with("accesses of ./");
    let output_text: String = output_text.lines().skip_while(is_progress).collect::<Vec<_>>().join("\n");
    assert_eq!(got, Some(status), "{line}: {output_text}");
    assert_eq!(output_text.lines().count(), 1, "{line}: {output_text}");
    assert!(output_text.starts_with("error: "), "{line}: {output_text}");
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
    compile(&place, "libjli.so", NOTHING, &["-shared", "-fPIC", "-Wl,-soname,libjli.so"]);
    compile(&place, "java", NOTHING, &["-Wl,--no-as-needed", "-L.", "-ljli", "-Wl,-rpath,$ORIGIN"]);
    compile(&place, "libjvm.so", NOTHING, &["-shared", "-fPIC"]);
    let opens = "#include <dlfcn.h>\nint main(void) { return !dlopen(\"./libjvm.so\", RTLD_NOW); }";
    compile(&place, "opens-jvm", opens, &[]);
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
        ("java", "a Java virtual machine, which stops its threads by faults"),
        ("opens-jvm", "a Java virtual machine, which stops its threads by faults"),
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
    assert!(
        output_text
            .contains("no trace here yet: `unsnarl hunt -- PROG` searches for a failure and saves one"),
        "{output_text}"
    );
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

/// Leaves a file behind, and fails.
const FAILS: &str = r#"
#include <assert.h>
#include <stdio.h>
int main(void) { fclose(fopen("ran", "w")); assert(!"the failure"); }
"#;

#[test]
fn unwritable_traces_are_refused_before_the_first_run() {
    let place = Place::new("unwritable");
    compile(&place, "fails", FAILS, &[]);
    place.write(".unsnarl", "not a directory");
    for command in ["record", "explore", "hunt"] {
        let advice = expect_output(&place, 96, &format!("\"$unsnarl\" {command} -- ./fails"));
        assert!(advice.contains("cannot make the directory .unsnarl (use -o FILE"), "{advice}");
        for output in ["-o missing/t.snarl", "-o .", "-o ok.snarl --junit missing/j.xml"] {
            if command == "record" && output.contains("--junit") {
                continue;
            }
            expect_output(&place, 96, &format!("\"$unsnarl\" {command} {output} -- ./fails"));
        }
    }
    assert_eq!(files(&place), ["fails"], "nothing ran, and no file is left");
}

#[test]
fn failure_that_cannot_be_saved_is_printed() {
    let place = Place::new("unsaved");
    compile(&place, "fails", FAILS, &[]);
    // A search has saved the trace before its results are written, so nothing is lost.
    for command in ["explore --seed 7", "hunt --seed 7"] {
        let (status, text) = sh(&place, &format!("\"$unsnarl\" {command} -o /dev/full -- ./fails"));
        assert_eq!(status, Some(100), "{command}: {text}");
        assert!(text.contains("cannot write /dev/full: No space left"), "{text}");
        assert!(text.contains(".unsnarl/fails-"), "{text}");
    }
    for command in ["record --seed 7"] {
        // The device can be opened, and is always full.
        let (status, text) = sh(&place, &format!("\"$unsnarl\" {command} -o /dev/full -- ./fails"));
        assert_eq!(status, Some(105), "{command}: {text}");
        for part in ["the failure", "rerun ", "--seed 7", "cannot write /dev/full: No space left"] {
            assert!(text.contains(part), "{command} lacks {part}: {text}");
        }
    }
}

#[test]
fn limit_on_open_files_is_named() {
    let place = Place::new("open_files");
    compile(&place, "plain", NOTHING, &[]);
    for limit in [4, 5, 6, 7, 8, 10, 12, 16] {
        for command in ["record", "explore -j 1"] {
            let line = format!("ulimit -n {limit}; \"$unsnarl\" {command} -- ./plain");
            let text = expect_output(&place, 96, &line);
            assert!(
                text.contains(&format!("at most {limit} files may be open here (`ulimit -n`)")),
                "{text}"
            );
        }
    }
    // A limit that can be raised is the program's own.
    let prints = "#include <stdio.h>\n#include <sys/resource.h>\n\
        int main(void) { struct rlimit l; getrlimit(RLIMIT_NOFILE, &l); return (int)l.rlim_cur; }";
    compile(&place, "prints", prints, &[]);
    let (status, text) = sh(&place, "ulimit -Sn 20; \"$unsnarl\" record -- ./prints");
    assert_eq!(status, Some(100), "{text}");
    assert!(text.contains("ended with status 20"), "{text}");
}

#[test]
fn machine_is_checked_without_an_environment() {
    let place = Place::new("no_environment");
    for environment in ["-i", "-i PATH=/nonexistent"] {
        let line = format!("/usr/bin/env {environment} {UNSNARL} doctor");
        let output = place.runs(0, "sh", &["-c", &line]).0;
        assert!(output.contains("`true` ran under control"), "{output}");
    }
}

/// Leaks memory, which AddressSanitizer reports natively.
const LEAKS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
void *block;
void *leak(void *unused) { block = malloc(10); return unused; }
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, leak, 0);
    pthread_join(thread, 0);
    block = 0;
}
"#;

#[test]
fn programs_with_address_sanitizer_are_controlled_without_its_leak_detection() {
    let place = Place::new("address_sanitizer");
    compile(&place, "leaks", LEAKS, &["-fsanitize=address", "-static-libasan", "-pthread"]);
    let output = place.exits(0, &["doctor", "./leaks"]).0;
    assert!(
        output.contains("contains AddressSanitizer: leak detection and data race detection are off"),
        "{output}"
    );
    place.exits(0, &["record", "-o", "t.snarl", "--", "./leaks"]);
    assert_eq!(place.json(0, &["replay", "t.snarl", "--json"])["identical"], true);
    let note = place.exits(0, &["explore", "--runs", "2", "-j", "1", "--", "./leaks"]).1;
    assert!(
        note.contains("contains AddressSanitizer") && note.contains("data race detection is off"),
        "{note}"
    );
}

#[test]
fn only_misuse_is_said_to_become_a_failure() {
    let place = Place::new("misuse_hint");
    let shared =
        "#include <semaphore.h>\nint main(void) { sem_t s; sem_init(&s, 1, 1); sem_wait(&s); return 0; }";
    compile(&place, "shared", shared, &["-pthread"]);
    let (stdout, _) = place.exits(0, &["explore", "--runs", "2", "--", "./shared"]);
    assert!(stdout.contains("warnings in ") && !stdout.contains("--fail-on misuse"), "{stdout}");
    let unlocks = "#include <pthread.h>\npthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n\
        int main(void) { pthread_mutex_unlock(&m); return 0; }";
    compile(&place, "unlocks", unlocks, &["-pthread"]);
    let (stdout, _) = place.exits(0, &["explore", "--runs", "2", "--", "./unlocks"]);
    assert!(stdout.contains("(--fail-on misuse makes them failures)"), "{stdout}");
}

#[test]
fn removed_program_is_named() {
    let place = Place::new("removed");
    compile(&place, "plain", NOTHING, &[]);
    place.exits(0, &["record", "-o", "t.snarl", "--", "./plain"]);
    fs::remove_file(place.path("plain")).expect("a program");
    let text = expect_output(&place, 96, "\"$unsnarl\" replay t.snarl");
    assert!(text.contains("plain, with which the trace was recorded, is gone; bring it back"), "{text}");
}

#[test]
fn full_standard_output_is_reported() {
    let place = Place::new("full_output");
    let (_, stderr) = place.runs(0, "sh", &["-c", &format!("{UNSNARL} doctor > /dev/full")]);
    assert_eq!(stderr.matches("cannot write to standard output: No space left").count(), 1, "{stderr}");
}
