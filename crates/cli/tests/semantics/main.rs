//! Operations give the same results and error numbers under control as without.

#[path = "../common/mod.rs"]
mod common;
mod linking;
mod signals;
mod spinning;

use common::Place;

/// Builds the random operations: a library, whose constructor begins before control does, and a program.
fn operations(name: &str) -> Place {
    let place = Place::new(name);
    place.write("operations.c", include_str!("operations.c"));
    place.write("main.c", include_str!("main.c"));
    let library = ["-O1", "-g", "-pthread", "-Wall", "-Wno-deprecated-declarations", "-fPIC", "-shared"];
    place.runs(0, "gcc", &[&library[..], &["-o", "liboperations.so", "operations.c"]].concat());
    place.runs(0, "gcc", &["-g", "-o", "main", "main.c", "-L.", "-loperations", "-Wl,-rpath,$ORIGIN"]);
    place
}

/// Compares sequences from this one on with their native results; returns how many there were.
#[track_caller]
fn compare(place: &Place, first: u32, count: u32) {
    let [first, count] = [first, count].map(|number| number.to_string());
    let (native, _) = place.runs(0, "./main", &[&first, &count]);
    let (controlled, notes) = place.exits(0, &["record", "-o", "t.snarl", "--", "./main", &first, &count]);
    let differs = native.lines().zip(controlled.lines()).find(|(native, controlled)| native != controlled);
    if let Some((native, controlled)) = differs {
        let words = || native.split(' ').zip(controlled.split(' '));
        let at = words().position(|(a, b)| a != b).unwrap_or(0);
        panic!("operation {at}: {:?}\nnative:     {native}\ncontrolled: {controlled}", words().nth(at));
    }
    assert_eq!(native.lines().count(), controlled.lines().count(), "{notes}");
}

/// The number of sequences: few in the tests, many in `cargo xtask bench semantics`.
fn sequences() -> u32 {
    std::env::var("UNSNARL_SEQUENCES").ok().and_then(|number| number.parse().ok()).unwrap_or(400)
}

#[test]
fn random_operations_have_native_results() {
    const AT_ONCE: u32 = 200;
    let place = operations("random_operations");
    for first in (0..sequences()).step_by(AT_ONCE as usize) {
        compare(&place, first, AT_ONCE);
    }
}

/// Each process begins with the objects that its constructor has left.
#[test]
fn objects_used_by_constructors_have_native_results() {
    let place = operations("constructors");
    for first in 1_000_000..1_000_000 + sequences() / 10 {
        compare(&place, first, 1);
    }
}

/// A library whose constructor uses every kind of object, as GLib's does with a read-write lock.
#[test]
fn objects_used_by_a_constructor_are_as_it_left_them() {
    let place = Place::new("constructor");
    place.write("first.c", include_str!("first.c"));
    place.write("first.h", include_str!("first.h"));
    place.runs(0, "gcc", &["-O1", "-g", "-pthread", "-fPIC", "-shared", "-o", "libfirst.so", "first.c"]);
    let use_library = ["-L.", "-lfirst", "-Wl,-rpath,$ORIGIN"];
    place.compile("later", include_str!("later.c"), &["gcc"], &use_library);
    let (native, _) = place.runs(0, "./later", &[]);
    let (controlled, notes) = place.exits(0, &["record", "-o", "t.snarl", "--", "./later"]);
    assert_eq!(native, controlled, "{notes}");
    for word in ["destroyed", "not hold", "held"] {
        assert!(!notes.contains(word), "{notes}");
    }
    assert_eq!(place.json(0, &["replay", "--json", "t.snarl"])["identical"], true);
    place.exits(0, &["explore", "--runs", "30", "--", "./later"]);
}
