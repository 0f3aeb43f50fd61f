//! The figures of the paper on multithreaded slicing.

mod toy;

use toy::{Toy, instructions};
use unsnarl_model::{Op, ThreadIx};
use unsnarl_slice::{
    Counts, Criterion, Extent, OrderingInput, RaceKind, Slice, StraightLine, closure, counts, races, reduce,
};

fn ordering(toy: &Toy) -> OrderingInput<'_> {
    OrderingInput { events: &toy.events, own_stack: &|_, _| false, lock_order: false }
}

fn slice(toy: &Toy, criterion: u64) -> Slice {
    let criterion = Criterion { steps: vec![criterion], ..Criterion::default() };
    let mut slice = closure(toy, &mut StraightLine, &criterion);
    races(toy, ordering(toy), &mut slice);
    slice
}

fn edges(slice: &Slice) -> Vec<(RaceKind, u32, u32)> {
    slice.races.iter().map(|edge| (edge.kind, edge.from.0.0, edge.to.0.0)).collect()
}

const X: u64 = 100;

#[test]
fn figure_1a_overwritten_write_is_included_by_waw() {
    let mut toy = Toy::default();
    toy.step(1, 1, &[], &[X]); // D1
    toy.step(2, 2, &[], &[X]); // D2
    let u1 = toy.step(1, 3, &[X], &[]);
    let criterion = Criterion { steps: vec![u1], ..Criterion::default() };
    assert_eq!(instructions(&closure(&toy, &mut StraightLine, &criterion)), [2, 3]);
    let slice = slice(&toy, u1);
    assert_eq!(instructions(&slice), [1, 2, 3]);
    assert!(edges(&slice).contains(&(RaceKind::WriteAfterWrite, 1, 2)));
}

#[test]
fn figure_1b_late_write_is_included_by_war() {
    let mut toy = Toy::default();
    toy.step(1, 1, &[], &[X]); // D1
    let u1 = toy.step(1, 3, &[X], &[]);
    toy.step(2, 2, &[], &[X]); // D2
    let slice = slice(&toy, u1);
    assert_eq!(instructions(&slice), [1, 2, 3]);
    assert!(edges(&slice).contains(&(RaceKind::WriteAfterRead, 3, 2)));
}

#[test]
fn atomic_operations_do_not_race_with_each_other() {
    let mut toy = Toy::default();
    toy.step(1, 1, &[], &[X]);
    toy.step(2, 2, &[X], &[X]);
    let read = toy.step(1, 3, &[X], &[]);
    toy.step(2, 4, &[], &[X]);
    let is_atomic = |slice: &Slice| slice.races.iter().all(|edge| edge.atomic);
    assert!(!is_atomic(&slice(&toy, read)));
    toy.steps.iter_mut().for_each(|step| step.atomic = true);
    let all = slice(&toy, read);
    assert!(is_atomic(&all), "{:?}", all.races);
    assert_eq!(instructions(&all), [1, 2, 3, 4], "their order still matters");
    toy.steps[3].atomic = false;
    assert!(!is_atomic(&slice(&toy, read)), "a plain write races with an atomic read");
}

/// Eleven statements of four threads; 2, 4, 8 and 10 lead to 11, which 5 and 6 reach by WAW and 9 by WAR.
fn figure_3() -> Toy {
    let [a, b, c, d, e] = [1, 2, 3, 4, 5];
    let mut toy = Toy::default();
    toy.step(0, 0, &[], &[]);
    toy.step(1, 1, &[], &[e]);
    toy.step(1, 2, &[], &[a]);
    toy.step(3, 3, &[], &[e]);
    toy.step(2, 4, &[a], &[b]);
    toy.step(1, 5, &[], &[c]);
    toy.step(4, 6, &[], &[c]);
    toy.step(4, 7, &[e], &[e]);
    toy.step(2, 8, &[b], &[c]);
    toy.step(3, 9, &[], &[b]);
    toy.step(3, 10, &[c], &[d]);
    toy.step(3, 11, &[d], &[]);
    toy
}

#[test]
fn figure_3_closure_and_its_race_neighbours() {
    let toy = figure_3();
    let criterion = Criterion { steps: vec![11], ..Criterion::default() };
    let orig = closure(&toy, &mut StraightLine, &criterion);
    assert_eq!(instructions(&orig), [2, 4, 8, 10, 11]);
    let all = slice(&toy, 11);
    assert_eq!(instructions(&all), [2, 4, 5, 6, 8, 9, 10, 11]);
    use RaceKind::{WriteAfterRead, WriteAfterWrite};
    assert_eq!(edges(&all), [(WriteAfterWrite, 5, 8), (WriteAfterWrite, 6, 8), (WriteAfterRead, 8, 9)]);
    // Nothing is followed from there: 1, 3 and 7 are not included.
}

#[test]
fn figure_8_only_consecutive_writes_count() {
    let mut toy = Toy::default();
    toy.step(1, 1, &[], &[X]);
    toy.step(1, 2, &[], &[X]);
    toy.step(2, 3, &[], &[X]);
    let Counts { before, consecutive, .. } = counts(&toy, ordering(&toy));
    assert_eq!((before, consecutive), (2, [1, 0]));
}

#[test]
fn figure_8_three_threads_restore_further_edge() {
    let mut toy = Toy::default();
    toy.step(1, 4, &[], &[X]);
    toy.step(2, 5, &[], &[X]);
    toy.step(3, 6, &[], &[X]);
    let end = toy.step(3, 7, &[X], &[]);
    assert_eq!(counts(&toy, ordering(&toy)).consecutive, [2, 0]);
    assert_eq!(instructions(&slice(&toy, end)), [4, 5, 6, 7]);
}

#[test]
fn figure_9_ordered_accesses_are_not_races() {
    let mut toy = Toy::default();
    toy.event(1, Op::Lock);
    toy.step(1, 1, &[], &[X]); // D1
    toy.event(1, Op::Unlock);
    toy.event(2, Op::Lock);
    toy.step(2, 2, &[], &[X]); // D2
    toy.event(2, Op::Unlock);
    toy.step(1, 3, &[], &[X]); // D3, without the lock
    let end = toy.step(1, 4, &[X], &[]);
    let counted = counts(&toy, ordering(&toy));
    assert_eq!((counted.consecutive, counted.unordered), ([2, 0], [1, 0]));
    let slice = slice(&toy, end);
    assert_eq!(edges(&slice), [(RaceKind::WriteAfterWrite, 2, 3)]);
}

#[test]
fn reorderable_critical_sections_are_reported_on_request() {
    let mut toy = Toy::default();
    for thread in [1, 2] {
        toy.event(thread, Op::Lock);
        toy.step(thread, thread.into(), &[], &[X]);
        toy.event(thread, Op::Unlock);
    }
    let end = toy.step(2, 3, &[X], &[]);
    assert_eq!(edges(&slice(&toy, end)), []);
    let criterion = Criterion { steps: vec![end], ..Criterion::default() };
    let mut by_lock = closure(&toy, &mut StraightLine, &criterion);
    races(&toy, OrderingInput { lock_order: true, ..ordering(&toy) }, &mut by_lock);
    let edge = by_lock.races.first().expect("an edge");
    assert!(edge.by_lock);
    assert_eq!((edge.from.1, edge.to.1), (ThreadIx(1), ThreadIx(2)));
}

#[test]
fn threads_with_reused_stacks_do_not_race() {
    let mut toy = Toy::default();
    toy.step(1, 1, &[], &[X]);
    toy.step(2, 2, &[], &[X]);
    let end = toy.step(2, 3, &[X], &[]);
    let criterion = Criterion { steps: vec![end], ..Criterion::default() };
    let mut slice = closure(&toy, &mut StraightLine, &criterion);
    races(&toy, OrderingInput { own_stack: &|_, _| true, ..ordering(&toy) }, &mut slice);
    assert_eq!(edges(&slice), []);
}

#[test]
fn slices_distinguish_bytes() {
    use unsnarl_slice::ByteSpan;
    let mut toy = Toy::default();
    toy.step(1, 1, &[], &[X]);
    toy.step(1, 2, &[], &[X]);
    toy.steps[1].writes = vec![ByteSpan::new(X * 8, 1)];
    toy.step(1, 3, &[X], &[]);
    toy.steps[2].reads = vec![ByteSpan::new(X * 8 + 1, 1)];
    toy.step(1, 4, &[X], &[]);
    toy.steps[3].reads = vec![ByteSpan::new(X * 8, 2)];
    assert_eq!(instructions(&slice(&toy, 2)), [1, 3]);
    assert_eq!(instructions(&slice(&toy, 3)), [1, 2, 4]);
}

#[test]
fn table_2_irrelevant_threads_and_segments_are_removed() {
    let mut toy = Toy::default();
    toy.step(1, 1, &[], &[1]);
    toy.step(2, 2, &[], &[2]); // never read
    toy.step(1, 3, &[1], &[3]);
    toy.step(3, 4, &[3], &[4]);
    let end = toy.step(3, 5, &[4], &[]);
    toy.step(1, 6, &[], &[5]); // too late
    let reduced = reduce(&toy, ordering(&toy), &[end]);
    assert_eq!(reduced.before, Extent { threads: 3, segments: 5, steps: 6 });
    assert_eq!(reduced.after, Extent { threads: 2, segments: 3, steps: 4 });
}
