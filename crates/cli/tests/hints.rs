//! The effect of the hints in `unsnarl.h` on a search, and that they have no other effect.

mod common;

use common::{Place, UNSNARL, programs};
use std::fs;

const STRATEGIES: [&str; 6] = ["random", "pct", "pos", "race", "chess", "portfolio"];

impl Place {
    /// Runs a program, checks its exit status, and returns its output.
    #[track_caller]
    fn expect_output(&self, status: i32, program: &str, args: &[&str]) -> String {
        let (stdout, stderr) = self.runs(status, program, args);
        stdout + &stderr
    }

    /// Compiles a program of `programs/`, changed by these replacements, as `prog`.
    #[track_caller]
    fn changed(&self, name: &str, changes: &[(&str, &str)], compiler: &[&str]) {
        let source = fs::read_to_string(programs().join("c").join(name)).expect("a program");
        let change = |text: String, (from, to): &(&str, &str)| {
            assert!(text.contains(from), "nothing to change: {from}");
            text.replace(from, to)
        };
        let source = changes.iter().fold(source.replace("../support.h", "support.h"), change);
        self.write("prog.c", source);
        fs::copy(programs().join("support.h"), self.0.join("support.h")).expect("a header");
        let flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", "prog", "prog.c"];
        self.expect_output(0, compiler[0], &[&compiler[1..], &flags].concat());
    }
}

#[test]
fn search_begins_at_the_checkpoint() {
    let place = Place::new("checkpoint");
    let search = |status, strategy| {
        let args = ["explore", "--runs", "300", "--strategy", strategy, "--json", "--", "./prog"];
        place.json(status, &args)
    };
    place.changed("hint_checkpoint.c", &[], &[UNSNARL, "cc"]);
    for strategy in STRATEGIES {
        search(0, strategy);
    }
    // Natively the hint does nothing, and the race before the checkpoint may show.
    let native = place.command("./prog", &[]).output().expect("the program runs");
    let lost_update = String::from_utf8_lossy(&native.stderr).contains("atomic_load(&counter) == 4");
    assert!(native.status.success() || lost_update, "{native:?}");
    place.changed("hint_checkpoint.c", &[("UNSNARL_CHECKPOINT();", "")], &[UNSNARL, "cc"]);
    search(100, "portfolio");
}

#[test]
fn failure_after_checkpoint_is_found_and_replays() {
    let place = Place::new("behind");
    place.changed(
        "hint_checkpoint.c",
        &[("two(work)", "two(set_up)"), ("static void *work", "void *work")],
        &[UNSNARL, "cc"],
    );
    for strategy in ["random", "pos"] {
        let found = place.json(100, &["explore", "--strategy", strategy, "--json", "--", "./prog"]);
        let shown = place.expect_output(0, UNSNARL, &["show", "--all"]);
        let (before, after) = shown.split_once("checkpoint").expect("the checkpoint is shown");
        assert!(!before.contains("preempts") && after.contains("preempts"), "{strategy}: {shown}");
        assert_eq!(place.json(100, &["replay", "--json"])["identical"], true);
        let again = place.json(100, &["record", "--like", "latest", "--json", "--", "./prog"]);
        assert_eq!(again["stats"], found["stats"]);
    }
}

#[test]
fn undivided_regions_are_never_preempted() {
    let place = Place::new("undivided");
    let search = |status, strategy| {
        place.expect_output(
            status,
            UNSNARL,
            &["explore", "--runs", "300", "--strategy", strategy, "--", "./prog"],
        );
    };
    place.changed("hint_undivided.c", &[], &[UNSNARL, "cc"]);
    for strategy in STRATEGIES {
        search(0, strategy);
    }
    place.changed(
        "hint_undivided.c",
        &[("UNSNARL_UNDIVIDED_BEGIN();", ""), ("UNSNARL_UNDIVIDED_END();", "")],
        &[UNSNARL, "cc"],
    );
    search(100, "portfolio");
}

#[test]
fn schedule_point_in_wait_loop_does_not_starve_others() {
    let place = Place::new("spinning");
    place.changed("hint_point_spinning.c", &[], &[UNSNARL, "cc"]);
    for strategy in STRATEGIES {
        place.expect_output(
            0,
            UNSNARL,
            &["explore", "--runs", "100", "--strategy", strategy, "--", "./prog"],
        );
    }
}

#[test]
fn hint_points_and_assertions_have_names() {
    let place = Place::new("names");
    place.changed("hint_point.c", &[], &[UNSNARL, "cc"]);
    place.expect_output(100, UNSNARL, &["explore", "--", "./prog"]);
    let shown = place.expect_output(0, UNSNARL, &["show", "--width", "150"]);
    assert!(shown.contains("point `between read and write`"), "{shown}");

    place.changed("hint_assert.c", &[], &[UNSNARL, "cc"]);
    let found = place.json(100, &["explore", "--json", "--", "./prog"]);
    assert_eq!(found["outcome"]["kind"], "assertion");
    assert_eq!(found["outcome"]["message"], "nothing is lost on the way");
}

#[test]
fn header_compiles_as_c_and_cxx_without_library() {
    let place = Place::new("plain");
    let include = format!("-I{}", programs().join("../include").display());
    place.changed("hint_point.c", &[], &["gcc", "-std=c99", "-pedantic", &include]);
    place.expect_output(0, "./prog", &[]);
    place.expect_output(100, UNSNARL, &["explore", "--", "./prog"]);
    for fixed in [&["gcc", "-no-pie", "-fno-pie", &include][..], &["gcc", "-static", &include]] {
        place.changed("hint_assert.c", &[], fixed);
        place.expect_output(0, "./prog", &[]);
    }
    fs::write(place.0.join("empty.c"), "#include <unsnarl.h>\nint main(void) { return 0; }\n")
        .expect("a source");
    let strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", &include, "-o", "empty"];
    for (compiler, flags) in
        [("gcc", &["-std=c89", "empty.c"][..]), ("g++", &["-std=c++11", "-x", "c++", "empty.c"])]
    {
        place.expect_output(0, compiler, &[&strict, flags].concat());
    }
}
