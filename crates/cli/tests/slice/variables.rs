//! Variables of C++ and Rust programs as slicing criteria, after a line and after one of its executions.

use super::{Place, slice_of};
use std::{collections::BTreeSet, process::Command};

const CPP: &str = r#"
#include <thread>
#include <vector>
static int other = 5;
__attribute__((noinline)) static int total(const std::vector<int> &list, int first) {
    int sum = first;
    int beside = other * 2; // BESIDE
    for (int value : list) {
        sum += value; // HERE
        beside += value; // BESIDE
    }
    return sum * 2 + beside; // THERE
}
int main(int argc, char **argv) {
    std::vector<int> list{argc + 1, argc + 2}; // LIST
    int result = 0;
    std::thread worker([&] { result = total(list, argc); });
    worker.join();
    return result; // END
}
"#;

const RUST: &str = r#"
static mut OTHER: i32 = 5;
#[inline(never)]
fn total(list: &[i32], first: i32) -> i32 {
    let mut sum = first;
    let mut beside = unsafe { OTHER } * 2; // BESIDE
    for value in list {
        sum += value; // HERE
        beside += value; // BESIDE
    }
    sum * 2 + beside // THERE
}
fn main() {
    let first = std::env::args().count() as i32;
    let list = vec![first + 1, first + 2]; // LIST
    let worker = std::thread::spawn(move || total(&list, first));
    let result = worker.join().unwrap();
    std::process::exit(result); // END
}
"#;

fn lines(source: &str, mark: &str) -> BTreeSet<u64> {
    (1..).zip(source.lines()).filter(|(_, line)| line.ends_with(mark)).map(|(number, _)| number).collect()
}

/// Compiles, records, and slices for the value of `sum`.
fn explains_sum(name: &str, source: &str, compiler: &[&str], levels: &[&str]) {
    for level in levels {
        let label = format!("{name} {level}");
        let place = Place::new(&label.replace([' ', '='], "-"));
        let file = format!("case.{name}");
        place.write(&file, source);
        let mut command = Command::new(compiler[0]);
        command.args(&compiler[1..]).args(level.split(' ')).args(["-o", "program", &file]);
        assert!(command.current_dir(&place.0).status().expect("a compiler").success(), "{label}");
        place.unsnarl(100, &["record", "-o", "t.snarl", "--", "./program"]);
        let here = *lines(source, "HERE").first().expect("a line");
        let found = |at: &str| -> (BTreeSet<u64>, u64) {
            let slice = slice_of(&place, &["--at", &format!("{file}:{here}{at}")]);
            assert_eq!(slice["criterion"]["line"], here, "{label} {at}");
            let of = |line: &serde_json::Value| line["line"].as_u64().expect("a number");
            let all = slice["lines"].as_array().expect("lines");
            let there = all.iter().find(|line| of(line) == here).expect("the line itself");
            (all.iter().map(of).collect(), there["instances"].as_u64().expect("a count"))
        };
        let (sum, executions) = found(":sum");
        assert_eq!(executions, 2, "{label}");
        assert!(sum.is_superset(&lines(source, "LIST")), "{label}: {sum:?}");
        for others in ["BESIDE", "THERE", "END"] {
            assert!(sum.is_disjoint(&lines(source, others)), "{label}: {others} in {sum:?}");
        }
        // At the first execution the second was still to come. Optimised code may do both in one.
        if level.contains('0') {
            assert_eq!(found(":sum#1").1, 1, "{label}");
            assert_eq!(found("#1").1, 1, "{label}");
        }
    }
}

#[test]
fn cpp_variable_can_be_sliced() {
    explains_sum("cpp", CPP, &["g++", "-g", "-pthread"], &["-O0", "-O1", "-O2"]);
}

#[test]
fn rust_variable_can_be_sliced() {
    let levels = ["-C opt-level=0", "-C opt-level=1", "-C opt-level=2"];
    explains_sum("rs", RUST, &["rustc", "-g", "--edition", "2021"], &levels);
}
