//! `unsnarl cc`, `c++` and `cargo` in real build systems: make, CMake, autoconf, cargo, and various command lines. The
//! built programs are instrumented, controlled and free of TSan's runtime.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const UNSNARL: &str = env!("CARGO_BIN_EXE_unsnarl");

const COUNTER: &str = "
int hits;
void visit(void) {
  int before = hits;
  hits = before + 1;
}
";

const MAIN_C: &str = "
#include <assert.h>
#include <pthread.h>
extern int hits;
void visit(void);
#ifdef __SANITIZE_THREAD__
#error the program must not notice
#endif
static void *visitor(void *unused) { visit(); return unused; }
int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, visitor, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  assert(hits == 2);
  return 0;
}
";

const MAIN_CXX: &str = "
#include <cassert>
#include <thread>
extern \"C\" { extern int hits; void visit(void); }
int main() {
  std::thread first(visit), second(visit);
  first.join();
  second.join();
  assert(hits == 2);
}
";

/// Creates a directory with these files.
fn project(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    for (file, content) in files {
        let path = directory.join(file);
        std::fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory");
        std::fs::write(path, content).expect("a file");
    }
    directory
}

fn run(directory: &Path, program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(directory);
    command.env("CC", format!("{UNSNARL} cc")).env("CXX", format!("{UNSNARL} c++"));
    for inherited in ["CFLAGS", "CXXFLAGS", "LDFLAGS", "MAKEFLAGS", "RUSTFLAGS", "CARGO_TARGET_DIR"] {
        command.env_remove(inherited);
    }
    command.output().unwrap_or_else(|error| panic!("{program}: {error}; `cargo xtask test` installs it"))
}

#[track_caller]
fn succeeds(directory: &Path, program: &str, args: &[&str]) -> String {
    let output = run(directory, program, args);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {}\n{stdout}{stderr}", output.status);
    stdout.into_owned()
}

/// Compiles and checks that there is no output: a configure script takes any output for a problem.
#[track_caller]
fn compiles_silently(directory: &Path, args: &[&str]) {
    let output = run(directory, UNSNARL, args);
    let output_text = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && output_text.is_empty(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output_text)
    );
}

#[track_caller]
fn is_refused(directory: &Path, args: &[&str], reason: &str) {
    let output = run(directory, UNSNARL, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains(reason), "{args:?}: {}\n{stderr}", output.status);
}

/// Returns whether the file names the library, as a dynamic section does.
fn names(file: &Path, library: &str) -> bool {
    let bytes = std::fs::read(file).expect("it was built");
    bytes.windows(library.len()).any(|window| window == library.as_bytes())
}

/// Runs the program without unsnarl; the runtime must not change it. It may lose an update, as it always could.
#[track_caller]
fn runs_by_itself(directory: &Path, program: &str) {
    let output = run(directory, program, &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || stderr.to_lowercase().contains("assert"),
        "{}: {stderr}",
        output.status
    );
    assert!(!stderr.contains("unsnarl"), "{stderr}");
}

/// Checks that the program runs under control, that its plain accesses are seen, and that its lost update is found.
#[track_caller]
fn is_controlled(directory: &Path, program: &str, source: &str) {
    runs_by_itself(directory, directory.join(program).to_str().expect("the path is text"));
    assert!(names(&directory.join(program), "libunsnarl_rt.so"), "{program} is not linked with the runtime");
    assert!(!names(&directory.join(program), "libtsan"), "{program} is linked with TSan's runtime");
    succeeds(directory, UNSNARL, &["record", "-o", "good.snarl", "--", program]);
    let shown = succeeds(directory, UNSNARL, &["show", "--all", "good.snarl"]);
    assert!(shown.contains("write") && shown.contains(source), "{shown}");
    let explored = run(
        directory,
        UNSNARL,
        &["explore", "--runs", "2000", "--seed", "1", "-o", "bad.snarl", "--", program],
    );
    assert_eq!(explored.status.code(), Some(100), "{}", String::from_utf8_lossy(&explored.stdout));
}

#[test]
fn makefile_project_builds_with_cc() {
    let makefile = "\
CFLAGS = -O1 -Wall -Werror -MMD
LDLIBS = -pthread
main: main.o counter.o
";
    let directory = project("make", &[("main.c", MAIN_C), ("counter.c", COUNTER), ("Makefile", makefile)]);
    succeeds(&directory, "make", &["-e", "-j2"]);
    assert!(directory.join("counter.d").exists(), "dependencies were written");
    is_controlled(&directory, "./main", "counter.c");
}

#[test]
fn cmake_project_builds_with_cc_and_cxx() {
    let lists = "
cmake_minimum_required(VERSION 3.10)
project(visits C CXX)
find_package(Threads REQUIRED)
add_library(counter SHARED counter.c)
add_library(archive STATIC counter.c)
add_executable(main main.c)
target_link_libraries(main archive Threads::Threads)
add_executable(mainxx main.cpp)
target_link_libraries(mainxx counter Threads::Threads)
";
    let files =
        [("main.c", MAIN_C), ("main.cpp", MAIN_CXX), ("counter.c", COUNTER), ("CMakeLists.txt", lists)];
    let directory = project("cmake", &files);
    succeeds(&directory, "cmake", &["-B", "build", "-S", ".", "-DCMAKE_C_FLAGS=-O1"]);
    succeeds(&directory, "cmake", &["--build", "build", "-j", "2"]);
    is_controlled(&directory, "build/main", "counter.c");
    is_controlled(&directory, "build/mainxx", "counter.c");
}

#[test]
fn configure_project_builds_with_cc() {
    let configure = "
AC_INIT([visits], [1])
AM_INIT_AUTOMAKE([foreign])
AC_PROG_CC
AC_CHECK_FUNCS([strlen pthread_create no_such_function])
AC_CHECK_SIZEOF([long])
AC_SEARCH_LIBS([pthread_create], [pthread])
AC_CONFIG_HEADERS([config.h])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
";
    let automake = "bin_PROGRAMS = main\nmain_SOURCES = main.c counter.c\n";
    let files =
        [("main.c", MAIN_C), ("counter.c", COUNTER), ("configure.ac", configure), ("Makefile.am", automake)];
    let directory = project("autoconf", &files);
    succeeds(&directory, "autoreconf", &["--install"]);
    succeeds(&directory, "./configure", &["CFLAGS=-O1"]);
    let config = std::fs::read_to_string(directory.join("config.h")).expect("configure wrote it");
    for found in ["#define HAVE_STRLEN 1", "#define SIZEOF_LONG 8", "/* #undef HAVE_NO_SUCH_FUNCTION */"] {
        assert!(config.contains(found), "{config}");
    }
    succeeds(&directory, "make", &[]);
    is_controlled(&directory, "./main", "counter.c");
}

#[test]
fn cargo_project_builds_with_unsnarl_cargo() {
    let manifest = "[package]\nname = \"visits\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    let main = "
use std::sync::atomic::{AtomicI32, Ordering};
struct Counter(std::cell::UnsafeCell<i32>);
unsafe impl Sync for Counter {}
static HITS: Counter = Counter(std::cell::UnsafeCell::new(0));
static VISITS: AtomicI32 = AtomicI32::new(0);
static START: std::sync::Barrier = std::sync::Barrier::new(2);
fn visit() {
    START.wait();
    VISITS.fetch_add(1, Ordering::SeqCst);
    unsafe { *HITS.0.get() += 1 }
}
fn main() {
    let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(visit)).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(unsafe { *HITS.0.get() }, VISITS.load(Ordering::SeqCst));
}
";
    let directory = project("cargo", &[("Cargo.toml", manifest), ("src/main.rs", main)]);
    succeeds(&directory, UNSNARL, &["cargo", "build", "--quiet", "--offline"]);
    assert!(!directory.join("target/debug").exists(), "ordinary builds are left alone");
    is_controlled(&directory, "target/unsnarl/x86_64-unknown-linux-gnu/debug/visits", "main.rs");
}

#[test]
fn c_code_of_build_scripts_is_instrumented() {
    let manifest = "[package]\nname = \"mixed\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    // The crate `cc` works in this way.
    let build = r#"
use std::{env, process::Command};
fn main() {
    let out = env::var("OUT_DIR").unwrap();
    let compiler = env::var("CC_x86_64_unknown_linux_gnu").or(env::var("CC")).unwrap_or("cc".into());
    let words: Vec<_> = compiler.split(' ').collect();
    let object = format!("{out}/hits.o");
    let mut compile = Command::new(words[0]);
    compile.args(&words[1..]).args(["-O1", "-g", "-fPIC", "-c", "hits.c", "-o", &object]);
    assert!(compile.status().unwrap().success());
    let mut archive = Command::new("ar");
    assert!(archive.args(["rcs", &format!("{out}/libhits.a"), &object]).status().unwrap().success());
    println!("cargo:rustc-link-search=native={out}");
    println!("cargo:rustc-link-lib=static=hits");
}
"#;
    let main = "
extern \"C\" { static hits: i32; fn visit(); }
fn main() {
    let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(|| unsafe { visit() })).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(unsafe { hits }, 2);
}
";
    let files = [("Cargo.toml", manifest), ("build.rs", build), ("hits.c", COUNTER), ("src/main.rs", main)];
    let directory = project("mixed", &files);
    let mut command = Command::new(UNSNARL);
    command.args(["cargo", "build", "--offline"]).current_dir(&directory);
    for inherited in ["CC", "CXX", "RUSTFLAGS", "CARGO_TARGET_DIR"] {
        command.env_remove(inherited);
    }
    let output = command.output().expect("unsnarl runs");
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    let program = "target/unsnarl/x86_64-unknown-linux-gnu/debug/mixed";
    assert!(report.contains("built    /") && report.contains(&format!("{program}\n")), "{report}");
    assert!(report.ends_with("not instrumented: Rust's standard library\n"), "{report}");
    is_controlled(&directory, program, "hits.c");
}

#[test]
fn sources_compile_and_link_in_one_command() {
    let directory = project(
        "one-step",
        &[("main.c", MAIN_C), ("counter.c", COUNTER), ("list", "main.c counter.c -o listed -pthread -O1")],
    );
    compiles_silently(
        &directory,
        &["cc", "-Wall", "-Werror", "-O1", "-pthread", "main.c", "counter.c", "-o", "main"],
    );
    is_controlled(&directory, "./main", "counter.c");
    compiles_silently(&directory, &["cc", "@list"]);
    is_controlled(&directory, "./listed", "counter.c");
    compiles_silently(&directory, &["cc", "-fsanitize=thread", "-O1", "main.c", "counter.c", "-o", "own"]);
    is_controlled(&directory, "./own", "counter.c");
    compiles_silently(&directory, &["cc", "-O2", "-flto", "main.c", "counter.c", "-o", "lto"]);
    assert!(names(&directory.join("lto"), "__tsan_write4"), "link-time optimisation keeps the accesses");
}

#[test]
fn each_compiler_stage_works() {
    let directory = project(
        "stages",
        &[
            ("main.c", MAIN_C),
            ("counter.c", COUNTER),
            ("nothing.S", "#if 1\n.section .note.GNU-stack\n#endif\n"),
            ("a.s", ".section .note.GNU-stack\n"),
        ],
    );
    compiles_silently(&directory, &["cc", "-c", "nothing.S", "a.s", "counter.c"]);
    compiles_silently(&directory, &["cc", "-static", "-c", "counter.c", "-o", "static.o"]);
    compiles_silently(&directory, &["cc", "-r", "counter.o", "a.o", "-o", "both.o"]);
    compiles_silently(
        &directory,
        &["cc", "-shared", "-fPIC", "-Wl,-z,defs", "counter.c", "-o", "libcounter.so"],
    );
    compiles_silently(&directory, &["cc", "main.c", "-L.", "-lcounter", "-o", "main"]);
    compiles_silently(&directory, &["cc", "-fsyntax-only", "main.c"]);
    compiles_silently(&directory, &["c++", "-x", "c", "/dev/null", "-E", "-o", "empty"]);
    let printed = |args: &[&str]| succeeds(&directory, UNSNARL, args);
    assert!(printed(&["cc", "-E", "counter.c"]).contains("hits = before + 1"));
    assert!(printed(&["cc", "-S", "counter.c", "-o", "-"]).contains("__tsan_write4"));
    assert!(printed(&["cc", "-M", "counter.c"]).starts_with("counter.o:"));
    assert!(!printed(&["cc", "--version"]).is_empty());
    assert!(!printed(&["cc", "-dumpmachine"]).is_empty());
    assert!(printed(&["cc", "-print-search-dirs"]).contains("libraries"));
    printed(&["cc", "-v"]);
    is_refused(&directory, &["cc"], "no input files");
}

#[test]
fn unsupported_builds_are_rejected_with_the_reason() {
    let directory = project("refused", &[("main.c", MAIN_C), ("counter.c", COUNTER)]);
    is_refused(&directory, &["cc", "-static", "main.c", "counter.c"], "link it dynamically");
    is_refused(
        &directory,
        &["cc", "-fsanitize=address", "main.c", "counter.c"],
        "cannot be combined with unsnarl",
    );
    is_refused(&directory, &["cc", "-c", "missing.c"], "missing.c");
    is_refused(&directory, &["cargo", "install"], "use build, run or test");
}
