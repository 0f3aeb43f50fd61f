//! Golden output of `unsnarl hunt` for each kind of failure. `INSTA_UPDATE=always cargo test --test goldens` updates
//! it. Times, and text that depends on the compiler's version, are left out.

mod common;
mod redaction;

use common::{Place, UNSNARL};
use redaction::redacted;

/// Returns the page of `hunt` for one of our programs.
fn page(name: &str, source: &str, options: &[&str]) -> String {
    let place = Place::new(name);
    let program = place.program(source);
    let program = format!("./{program}");
    let args = [&["hunt"], options, &["--", &program]].concat();
    let output = place.command(UNSNARL, &args).env_remove("COLUMNS").output();
    let output = output.expect("unsnarl runs");
    assert_eq!(output.status.code(), Some(100), "{output:?}");
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(names_the_cause(&page), "the cause is not in the first ten lines:\n{page}");
    redacted(&page)
}

/// Returns whether the sentence that says why is among the first ten lines.
fn names_the_cause(page: &str) -> bool {
    page.lines().take(10).any(|line| line.starts_with("why      "))
}

macro_rules! goldens {
    ($($name:ident: $source:literal $options:expr;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), page(stringify!($name), $source, &$options));
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
    panic: "rust/index_out_of_bounds.rs" [];
    livelock: "c/flag_reset_livelock.c" ["--max-spins", "300"];
}
