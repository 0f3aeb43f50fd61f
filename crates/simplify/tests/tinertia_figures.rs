//! Tinertia's own example: figures 1 to 5, step by step.

mod toy;

use toy::{InMemory, Program, programs};
use unsnarl_model::{Event, Fidelity, Op, Plan, Policy, Prefix, Segment, ThreadId, ThreadIx, Trace};
use unsnarl_simplify::{
    Cost,
    dynamic::{self, Transformation},
};

/// Renders the executed actions in the figures' words; thread 1 is main here, thread 2 its child.
fn rendered(trace: &Trace) -> Vec<String> {
    let render = |event: &Event| {
        let thread = if event.thread == ThreadIx::MAIN { "T1" } else { "T2" };
        let transformation = match (event.op, event.addr & 0xff) {
            (Op::Read, 0) => "while (!flag)",
            (Op::Read, _) => "if (x == 3)",
            (Op::Yield, _) => "sleep()",
            (Op::Write, 0) if event.thread == ThreadIx::MAIN => "flag = 1",
            (Op::Write, 0) => "flag = 0",
            (Op::Write, 8) if event.thread == ThreadIx::MAIN => "x = 1",
            (Op::Write, 8) => "x = 3",
            _ => "error()",
        };
        format!("({thread}, {transformation})")
    };
    trace.events.iter().map(render).collect()
}

/// The buggy trace of figure 2.
fn figure_2(program: &Program) -> Trace {
    let run = |thread, points| Segment { thread: ThreadIx(thread), points };
    let segments =
        vec![run(1, 2), run(0, 1), run(1, 1), run(0, 1), run(1, 1), run(0, 1), run(1, 1), run(0, 1)];
    let threads = vec![ThreadId::main(), ThreadId::main().child(1)];
    let prefix = Prefix { threads, segments, fidelity: Fidelity::Exact, ..Prefix::default() };
    program.run(&Plan { prefix, tail: Policy::Fair, ..Plan::default() })
}

#[test]
fn paper_example_simplifies_from_figure_2_to_5() {
    let program = programs::figure_1();
    let start = figure_2(&program);
    let figure_2 = [
        "(T2, while (!flag))",
        "(T2, sleep())",
        "(T1, flag = 1)",
        "(T2, while (!flag))",
        "(T1, x = 1)",
        "(T2, x = 3)",
        "(T1, if (x == 3))",
        "(T2, flag = 0)",
        "(T1, error())",
    ];
    assert_eq!(rendered(&start), figure_2);
    assert_eq!(start.stats().context_switches, 7);

    let mut steps: Vec<(Transformation, Vec<String>, u64)> = Vec::new();
    let found = dynamic::simplify(&start, &mut InMemory::new(&program), &mut |step| {
        steps.push((step.transformation, rendered(step.trace), step.trace.stats().context_switches));
    });
    let figure_3 = [
        "(T2, while (!flag))",
        "(T2, sleep())",
        "(T1, flag = 1)",
        "(T2, while (!flag))",
        "(T1, x = 1)",
        "(T2, x = 3)",
        "(T1, if (x == 3))",
        "(T1, error())",
    ];
    let figure_4 = [
        "(T2, while (!flag))",
        "(T2, sleep())",
        "(T1, flag = 1)",
        "(T1, x = 1)",
        "(T2, while (!flag))",
        "(T2, x = 3)",
        "(T1, if (x == 3))",
        "(T1, error())",
    ];
    let figure_5 = [
        "(T1, flag = 1)",
        "(T1, x = 1)",
        "(T2, while (!flag))",
        "(T2, x = 3)",
        "(T1, if (x == 3))",
        "(T1, error())",
    ];
    let expected = [
        (Transformation::RemoveLast, figure_3.map(String::from).to_vec(), 5),
        (Transformation::ConsolidateUpTei, figure_4.map(String::from).to_vec(), 3),
        (Transformation::ConsolidateDown, figure_5.map(String::from).to_vec(), 2),
    ];
    assert_eq!(steps, expected);
    assert_eq!(rendered(&found.trace), figure_5);
    assert_eq!(found.trace.signature(), start.signature());
    let removed = |transformation| found.stats.removed_by(transformation);
    assert_eq!(
        Transformation::ALL.map(removed),
        [2, 2, 0, 1, 0, 0],
        "switches removed by each transformation, as in the paper"
    );
    assert_eq!(found.stats.rounds, 2, "the second round finds nothing");
}

#[test]
fn second_consolidate_up_stage_trades_preemption_for_block() {
    use toy::Ins::{Add, Create, Fail, Join, Lock, Read, SemPost, SemWait, Unless, Unlock, Write};
    // The child continues only if main has added to 2 while it holds the lock, and it must be stopped before
    // its last write. Main can also add to 1 before it has to wait for the lock.
    let main = vec![
        Create(1),
        SemWait(0),
        Add(2, 1),
        Add(1, 1),
        Lock(0),
        Read(0),
        Unless(1, 8),
        Fail("seen"),
        Unlock(0),
        Join(1),
    ];
    let child = vec![Lock(0), SemPost(0), Read(2), Unless(1, 7), Add(0, 1), Unlock(0), Write(0, 5)];
    let program = Program { threads: vec![main, child], ..Program::default() };
    let run = |thread, points| Segment { thread: ThreadIx(thread), points };
    let segments = vec![run(0, 1), run(1, 3), run(0, 2), run(1, 3), run(0, 3)];
    let threads = vec![ThreadId::main(), ThreadId::main().child(1)];
    let prefix = Prefix { threads, segments, fidelity: Fidelity::Exact, ..Prefix::default() };
    let start = program.run(&Plan { prefix, tail: Policy::Fair, ..Plan::default() });
    assert_eq!(Cost::of(&start.events), Cost { switches: 4, preemptions: 3 });
    let mut steps = Vec::new();
    let found =
        dynamic::simplify(&start, &mut InMemory::new(&program), &mut |step| steps.push(step.transformation));
    assert_eq!(steps, [Transformation::ConsolidateUpActions]);
    assert_eq!(Cost::of(&found.trace.events), Cost { switches: 4, preemptions: 2 });
    assert_eq!(found.trace.signature(), start.signature());
}
