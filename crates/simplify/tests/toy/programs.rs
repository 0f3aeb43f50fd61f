//! Programs to run.

use super::{Ins, Program};
use proptest::prelude::*;

/// The program of Tinertia's figure 1: thread 1 (here main) sets a flag, then x, and fails if it finds thread
/// 2's value there. `sleep()` yields; `error()` is an action of its own, recorded as a write.
pub(crate) fn figure_1() -> Program {
    const FLAG: u8 = 0;
    const X: u8 = 1;
    const ERROR: u8 = 2;
    let one = vec![
        Ins::Write(FLAG, 1),
        Ins::Write(X, 1),
        Ins::Read(X),
        Ins::Unless(3, 6),
        Ins::Write(ERROR, 1),
        Ins::Fail("error()"),
    ];
    let two = vec![
        Ins::Read(FLAG),
        Ins::Unless(0, 4),
        Ins::Yield,
        Ins::Goto(0),
        Ins::Write(X, 3),
        Ins::Write(FLAG, 0),
    ];
    Program::bare(vec![one, two])
}

/// The construction of Tinertia's theorem 3.1 as a program: it fails if and only if every thread's second action
/// comes after the first ones of all its neighbours.
pub(crate) fn vertex_cover(vertices: u8, edges: &[(u8, u8)]) -> Program {
    let all = vertices;
    let thread = |v: u8| {
        let mut list = vec![Ins::Write(v, 1)];
        let neighbours = edges.iter().filter_map(|&(a, b)| match () {
            () if a == v => Some(b),
            () if b == v => Some(a),
            () => None,
        });
        for neighbour in neighbours {
            list.extend([Ins::Read(neighbour), Ins::Unless(1, 200)]);
        }
        let end = list.len() as u8 + 3;
        list.extend([Ins::Add(all, 1), Ins::Unless(vertices.into(), end), Ins::Fail("every edge is kept")]);
        list
    };
    Program::bare((0..vertices).map(thread).collect())
}

/// Returns the size of a minimum vertex cover.
pub(crate) fn least_cover(vertices: u8, edges: &[(u8, u8)]) -> u32 {
    let covers = |set: u32| edges.iter().all(|&(a, b)| set & (1 << a | 1 << b) != 0);
    (0..1u32 << vertices).filter(|&set| covers(set)).map(u32::count_ones).min().unwrap_or(0)
}

/// Programs of a few threads that do a little of everything, and may fail, deadlock or do neither.
pub(crate) fn random() -> impl Strategy<Value = Program> {
    let others = prop::collection::vec(body(), 1..4);
    let bodies = (body(), prop::option::of(body()));
    (bodies, others, any::<bool>(), 0..2u64, 2..4u64).prop_map(|(bodies, others, joins, count, barrier)| {
        let lists = 1..=others.len() as u8;
        let mut main: Vec<Ins> = lists.clone().map(Ins::Create).collect();
        append(&mut main, bodies.0);
        if joins {
            main.extend(lists.map(Ins::Join));
            // Here main is alone, and perhaps was before.
            bodies.1.into_iter().for_each(|body| append(&mut main, body));
        }
        let mut threads = vec![main];
        for body in others {
            let mut list = Vec::new();
            append(&mut list, body);
            threads.push(list);
        }
        Program { threads, bare: false, sole_accesses_are_events: false, count, barrier }
    })
}

/// A few independent pieces.
fn body() -> impl Strategy<Value = Vec<Vec<Ins>>> {
    prop::collection::vec(piece(), 1..5)
}

/// Appends pieces; jumps in a piece are relative to its start.
fn append(list: &mut Vec<Ins>, pieces: Vec<Vec<Ins>>) {
    for piece in pieces {
        let start = list.len() as u8;
        list.extend(piece.into_iter().map(|ins| match ins {
            Ins::Goto(to) => Ins::Goto(start + to),
            Ins::Unless(value, to) => Ins::Unless(value, start + to),
            other => other,
        }));
    }
}

fn access() -> impl Strategy<Value = Ins> {
    prop_oneof![
        (0..3u8).prop_map(Ins::Read),
        (0..3u8, 0..3i64).prop_map(|(var, value)| Ins::Write(var, value)),
        (0..3u8).prop_map(|var| Ins::Add(var, 1)),
    ]
}

fn piece() -> impl Strategy<Value = Vec<Ins>> {
    let some = || prop::collection::vec(access(), 0..3);
    let between = |first: Ins, inner: Vec<Ins>, last: Ins| {
        let mut all = vec![first];
        all.extend(inner);
        all.push(last);
        all
    };
    prop_oneof![
        4 => prop::collection::vec(access(), 1..4),
        3 => (0..2u8, some()).prop_map(move |(l, inner)| between(Ins::Lock(l), inner, Ins::Unlock(l))),
        1 => (0..2u8, some()).prop_map(move |(l, inner)| {
            let nested = between(Ins::Lock(1 - l), inner, Ins::Unlock(1 - l));
            between(Ins::Lock(l), nested, Ins::Unlock(l))
        }),
        1 => (0..2u8).prop_map(|l| vec![Ins::TryLock(l), Ins::Unless(1, 4), Ins::Add(2, 1), Ins::Unlock(l)]),
        1 => (0..2u8).prop_map(|l| vec![Ins::TimedLock(l), Ins::Unless(0, 4), Ins::Add(2, 1), Ins::Unlock(l)]),
        1 => some().prop_map(move |inner| between(Ins::ReadLock(0), inner, Ins::RwUnlock(0))),
        1 => some().prop_map(move |inner| between(Ins::WriteLock(0), inner, Ins::RwUnlock(0))),
        1 => Just(vec![Ins::TryWriteLock(0), Ins::Unless(1, 4), Ins::Add(1, 1), Ins::RwUnlock(0)]),
        1 => Just(vec![Ins::Lock(0), Ins::Wait(0, 0), Ins::Unlock(0)]),
        1 => Just(vec![Ins::Lock(0), Ins::TimedWait(0, 0), Ins::Unlock(0)]),
        1 => Just(vec![Ins::Signal(0)]),
        1 => Just(vec![Ins::Lock(0), Ins::Broadcast(0), Ins::Unlock(0)]),
        1 => Just(vec![Ins::SemWait(0)]),
        1 => Just(vec![Ins::SemTryWait(0)]),
        2 => Just(vec![Ins::SemPost(0)]),
        1 => Just(vec![Ins::Barrier(0)]),
        1 => prop::sample::select(vec![Ins::Yield, Ins::Sleep]).prop_map(|ins| vec![ins]),
        2 => (0..3u8, 0..4i64).prop_map(|(var, value)| {
            vec![Ins::Read(var), Ins::Unless(value, 3), Ins::Fail("the value is there")]
        }),
    ]
}

/// Programs whose threads also wait in loops: they poll a variable, try a lock, or wait with a timeout until something
/// happens.
pub(crate) fn polling() -> impl Strategy<Value = Program> {
    let thread = || (body(), prop::collection::vec(wait(), 1..3), body());
    let others = prop::collection::vec(thread(), 1..4);
    (others, body(), 0..2u64, 2..4u64).prop_map(|(others, body, count, barrier)| {
        let mut main: Vec<Ins> = (1..=others.len() as u8).map(Ins::Create).collect();
        append(&mut main, body);
        // So that most loops end.
        main.extend([Ins::Write(0, 1), Ins::Add(1, 1), Ins::Write(2, 2)]);
        let mut threads = vec![main];
        for (before, waits, after) in others {
            let mut list = Vec::new();
            append(&mut list, before);
            append(&mut list, waits);
            append(&mut list, after);
            threads.push(list);
        }
        Program { threads, bare: false, sole_accesses_are_events: true, count, barrier }
    })
}

/// A loop that ends when something has happened.
fn wait() -> impl Strategy<Value = Vec<Ins>> {
    let pause = || prop::sample::select(vec![Ins::Yield, Ins::Sleep]);
    prop_oneof![
        (0..3u8, pause()).prop_map(|(var, pause)| vec![
            Ins::Read(var),
            Ins::Unless(0, 4),
            pause,
            Ins::Goto(0)
        ]),
        (0..3u8).prop_map(|var| vec![Ins::Read(var), Ins::Unless(0, 3), Ins::Goto(0)]),
        (0..2u8, pause()).prop_map(|(lock, pause)| {
            vec![
                Ins::TryLock(lock),
                Ins::Unless(0, 4),
                pause,
                Ins::Goto(0),
                Ins::Add(2, 1),
                Ins::Unlock(lock),
            ]
        }),
        (0..3u8).prop_map(|var| {
            vec![
                Ins::Lock(0),
                Ins::Read(var),
                Ins::Unless(0, 5),
                Ins::TimedWait(0, 0),
                Ins::Goto(1),
                Ins::Unlock(0),
            ]
        }),
    ]
}

/// Threads that each add to a total under a lock, `rounds` times, and one of which must find the flag of another one set:
/// a long trace with one switch that matters.
pub(crate) fn long(threads: u8, rounds: i64) -> Program {
    const FLAG: u8 = 100;
    let worker = |number: u8| {
        let mut list =
            vec![Ins::Lock(0), Ins::Add(0, 1), Ins::Unlock(0), Ins::Add(number, 1), Ins::Unless(rounds, 0)];
        if number == 1 {
            list.extend([Ins::Write(FLAG, 1), Ins::Write(FLAG, 0)]);
        }
        if number == 2 {
            list.extend([Ins::Read(FLAG), Ins::Unless(1, 8), Ins::Fail("the flag is set")]);
        }
        list
    };
    let main = (1..=threads).map(Ins::Create).chain((1..=threads).map(Ins::Join)).collect();
    let workers = (1..=threads).map(worker);
    Program { threads: std::iter::once(main).chain(workers).collect(), ..Program::default() }
}
