//! What `unsnarl hunt` says of each kind of failure, to be read as a user does. `INSTA_UPDATE=always cargo test --test goldens`
//! writes it anew. Times, and what depends on the compiler's version, are left out.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// How a program is compiled.
fn compile(directory: &Path, source: &str) {
    let (program, extension) =
        source.rsplit_once('/').map_or(source, |(_, name)| name).split_once('.').expect("a name");
    let file = format!("{program}.{extension}");
    let unsnarl = env!("CARGO_BIN_EXE_unsnarl");
    let words: Vec<&str> = match extension {
        "c" => vec![unsnarl, "cc", "-O1", "-g", "-pthread", "-o", program, &file],
        _ => vec![unsnarl, "c++", "-std=c++17", "-O1", "-g", "-pthread", "-o", program, &file],
    };
    let mut command = Command::new(words[0]);
    let output = command.args(&words[1..]).current_dir(directory).output();
    let output = output.expect("a compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The page of `hunt` on one of our programs.
fn page(source: &str, options: &[&str]) -> String {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let name = source.rsplit_once('/').map_or(source, |(_, name)| name);
    let program = name.split('.').next().expect("a name");
    let directory: PathBuf =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("goldens").join(format!("{program}{}", options.join("")));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory");
    fs::copy(programs.join(source), directory.join(name)).expect("a program");
    compile(&directory, source);
    let output = Command::new(env!("CARGO_BIN_EXE_unsnarl"))
        .arg("hunt")
        .args(options)
        .args(["--", &format!("./{program}")])
        .current_dir(&directory)
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .expect("unsnarl runs");
    assert_eq!(output.status.code(), Some(100), "{output:?}");
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(names_the_cause(&page), "the cause is not in the first ten lines:\n{page}");
    redacted(&page)
}

/// Whether the sentence that says why is among the first ten lines.
fn names_the_cause(page: &str) -> bool {
    page.lines().take(10).any(|line| line.starts_with("why      "))
}

fn redacted(page: &str) -> String {
    let rules = [
        (r"\d+\.\d+ s\b", "T s"),
        (r"\d+ instructions traced", "N instructions traced"),
        (r"\d+ of \d+ steps", "N of N steps"),
        (r"in run \d+ of", "in run N of"),
        (r", \d+ runs, T s", ", N runs, T s"),
        (r"\(race:\d+:\d+, seed \d+\)|\(\w+(:\d+)*, seed \d+\)", "(STRATEGY)"),
        (r"0x[0-9a-f]{6,}", "ADDRESS"),
    ];
    rules.iter().fold(page.to_owned(), |page, (from, to)| {
        regex::Regex::new(from).expect("a pattern").replace_all(&page, *to).into_owned()
    })
}

macro_rules! goldens {
    ($($name:ident: $source:literal $options:expr;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), page($source, &$options));
        }
    )*};
}

goldens! {
    assertion: "c/account.c" [];
    deadlock: "c/abba_deadlock.c" [];
    lost_signal: "c/lost_signal_deadlock.c" [];
    crash: "c/nulled_pointer_segv.c" [];
    abort: "c/check_then_act.c" [];
    exit_status: "c/exit_status_three.c" [];
    misuse: "c/trylock_unchecked.c" ["--fail-on", "misuse"];
    race: "c/account.c" ["--fail-on", "race"];
    check: "c/account_fixed.c" ["--check", "false"];
    exception: "cpp/uncaught_exception.cpp" [];
    timeout: "c/after_you_livelock.c" ["--max-events", "400"];
}
