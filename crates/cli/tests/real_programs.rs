//! Programs of the distribution, as they are: a few schedules each give the right result and replay identically. `cargo xtask bench
//! real` does the same with more programs and more schedules.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

const UNSNARL: &str = env!("CARGO_BIN_EXE_unsnarl");
const SEEDS: [&str; 3] = ["1", "2", "3"];

/// Runs it by itself and under random schedules.
fn same_result_by_every_schedule(command: &[&str], lines: u64, least_threads: u64) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real-programs").join(command[0]);
    fs::create_dir_all(&directory).expect("a directory");
    let lines: Vec<String> =
        (0..lines).map(|n| format!("{}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)).collect();
    fs::write(directory.join("lines"), lines.concat()).expect("a file");
    let native =
        Command::new(command[0]).args(&command[1..]).current_dir(&directory).output().expect("it is there");
    assert!(native.status.success(), "{}", String::from_utf8_lossy(&native.stderr));
    for seed in SEEDS {
        let unsnarl = |args: &[&str]| {
            let mut unsnarl = Command::new(UNSNARL);
            unsnarl.args(args).current_dir(&directory).stdin(Stdio::null()).output().expect("unsnarl runs")
        };
        let run = unsnarl(&[&["record", "--seed", seed, "-o", "t.snarl", "--"], command].concat());
        assert!(run.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&run.stderr));
        assert!(run.stdout == native.stdout, "seed {seed}: another output");
        let replay = unsnarl(&["replay", "t.snarl", "--json"]);
        let told: serde_json::Value = serde_json::from_slice(&replay.stdout).expect("JSON");
        assert_eq!(told["identical"], true, "seed {seed}: {told}");
    }
    let again = Command::new(UNSNARL)
        .args([&["record", "--seed", "1", "--json", "--"], command].concat())
        .current_dir(&directory)
        .stdin(Stdio::null())
        .output()
        .expect("unsnarl runs");
    let told: serde_json::Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert!(told["stats"]["threads"].as_u64() >= Some(least_threads), "{told}");
}

/// With fewer lines it makes no second thread.
#[test]
fn sort_in_parallel() {
    same_result_by_every_schedule(&["sort", "--parallel=4", "-S", "20M", "lines"], 140_000, 2);
}

#[test]
fn xz_with_threads() {
    same_result_by_every_schedule(&["xz", "-T4", "-0", "--block-size=64KiB", "-c", "lines"], 40_000, 3);
}
