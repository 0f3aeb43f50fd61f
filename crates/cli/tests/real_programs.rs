//! Unmodified programs of the distribution: a few schedules each give the right result and replay identically. `cargo
//! xtask bench real` does the same with more programs and more schedules.

mod common;

use common::Place;

const SEEDS: [&str; 3] = ["1", "2", "3"];

/// Runs the command by itself and under random schedules.
fn same_result_by_every_schedule(command: &[&str], lines: u64, least_threads: u64) {
    let place = Place::new(command[0]);
    let lines: Vec<String> =
        (0..lines).map(|n| format!("{}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)).collect();
    place.write("lines", lines.concat());
    let native = place.command(command[0], &command[1..]).output().expect("it is there");
    assert!(native.status.success(), "{}", String::from_utf8_lossy(&native.stderr));
    for seed in SEEDS {
        let run = place.ends(&[&["record", "--seed", seed, "-o", "t.snarl", "--"], command].concat());
        assert!(run.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&run.stderr));
        assert!(run.stdout == native.stdout, "seed {seed}: another output");
        let report = place.json(0, &["replay", "t.snarl", "--json"]);
        assert_eq!(report["identical"], true, "seed {seed}: {report}");
    }
    let report = place.json(0, &[&["record", "--seed", "1", "--json", "--"], command].concat());
    assert!(report["stats"]["threads"].as_u64() >= Some(least_threads), "{report}");
}

/// With fewer lines it creates no second thread.
#[test]
fn parallel_sort_records_and_replays() {
    same_result_by_every_schedule(&["sort", "--parallel=4", "-S", "20M", "lines"], 140_000, 2);
}

#[test]
fn threaded_xz_records_and_replays() {
    same_result_by_every_schedule(&["xz", "-T4", "-0", "--block-size=64KiB", "-c", "lines"], 40_000, 3);
}
