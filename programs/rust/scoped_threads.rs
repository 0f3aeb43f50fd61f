//! Scoped threads borrow from the stack of `main`, one mutably and disjointly, and return values; builders
//! give names and stack sizes. Expected: the same line in every schedule.

use std::thread;

fn main() {
    let words = ["knot", "thread", "tangle"];
    let mut halves = [0, 0, 0, 0];
    let (left, right) = halves.split_at_mut(2);
    let lengths: Vec<usize> = thread::scope(|scope| {
        scope.spawn(|| left.fill(1));
        scope.spawn(|| right.fill(2));
        let counters: Vec<_> = words
            .iter()
            .map(|word| {
                thread::Builder::new()
                    .name(word.to_string())
                    .stack_size(128 * 1024)
                    .spawn_scoped(scope, || thread::current().name().unwrap().len())
                    .unwrap()
            })
            .collect();
        counters.into_iter().map(|counter| counter.join().unwrap()).collect()
    });
    println!("{lengths:?} {halves:?}");
}
