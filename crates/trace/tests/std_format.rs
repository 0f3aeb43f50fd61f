//! Import and export of other tools' traces.

mod arbitrary;
mod looping;

use proptest::prelude::*;
use std::io::Cursor;
use unsnarl_model::{Event, Flags, Op, Order, SiteIx, ThreadIx, Trace};
use unsnarl_trace::{
    decode, encode,
    std_format::{ImportedTrace, export, export_with_names, import, import_streaming},
};

fn read(text: &str) -> ImportedTrace {
    import(text.as_bytes()).unwrap()
}

fn written(trace: &Trace) -> String {
    let mut text = Vec::new();
    export(trace, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn written_with_names(imported: &ImportedTrace) -> String {
    let mut text = Vec::new();
    export_with_names(&imported.trace, &imported.names, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn notes(imported: &ImportedTrace) -> Vec<String> {
    imported.notes.iter().map(ToString::to_string).collect()
}

fn ops(trace: &Trace) -> Vec<(u16, Op, u64)> {
    trace.events.iter().map(|event| (event.thread.0, event.op, event.value)).collect()
}

const FIGURE: &str = "\
main|begin(main)|-1
main|w(x)|0
main|fork(worker)|1
main|acq(L)|2
main|r(Foo.bar)|3
main|rel(L)|4
worker|acq(L)|2
worker|w(399431958621)|5
worker|rel(L)|4
main|join(worker)|6
main|end(main)|7
";

#[test]
fn well_formed_trace_round_trips_with_names() {
    let imported = read(FIGURE);
    assert_eq!(notes(&imported), [""; 0]);
    assert_eq!(written_with_names(&imported), FIGURE);
    let ids: Vec<_> = imported.trace.threads.iter().map(|t| (t.id.to_string(), &*t.name)).collect();
    assert_eq!(ids, [("0".into(), "main"), ("0.1".into(), "worker")]);
    assert_eq!(
        ops(&imported.trace)[..6],
        [
            (0, Op::Start, 0),
            (0, Op::Write, 0),
            (0, Op::Create, 1),
            (0, Op::Lock, 1),
            (0, Op::Read, 0),
            (0, Op::Unlock, 0)
        ]
    );
}

#[test]
fn trace_without_names_round_trips_up_to_renaming() {
    let mut imported = read(FIGURE);
    assert_eq!(written(&imported.trace), FIGURE, "the trace keeps them");
    imported.trace.names.clear();
    let renamed = written(&imported.trace);
    assert_eq!(renamed.lines().nth(3).unwrap(), "main|acq(9223372036854775810)|2", "a name becomes a number");
    let ImportedTrace { mut trace, .. } = read(&renamed);
    trace.names.clear();
    assert_eq!(trace, imported.trace, "and means the same");
}

#[test]
fn imported_trace_can_be_saved() {
    let trace = read(FIGURE).trace;
    assert_eq!(decode(&encode(&trace)).unwrap(), trace);
}

#[test]
fn thread_ids_follow_forks_and_unknown_threads_belong_to_main() {
    let imported = read(
        "\
A|fork(B)|1
B|fork(C)|2
Z|w(x)|3
A|fork(D)|4
D|join(Y)|5
",
    );
    let ids: Vec<_> = imported.trace.threads.iter().map(|t| format!("{} {}", t.name, t.id)).collect();
    assert_eq!(ids, ["A 0", "B 0.1", "C 0.1.1", "Z 0.2", "D 0.3", "Y 0.4"]);
}

#[test]
fn fork_may_omit_thread_prefix() {
    let text = "T91|fork(107)|0\nT107|w(5)|1\nT91|join(107)|2\n";
    let imported = read(text);
    assert_eq!(imported.trace.threads.len(), 2);
    assert_eq!(written_with_names(&imported), text);
    assert_eq!(written(&imported.trace), "T91|fork(T107)|0\nT107|w(5)|1\nT91|join(T107)|2\n");
}

#[test]
fn odd_lines_are_kept_and_noted() {
    let imported = read(
        "\
T1|acq(L)|1
T1|acq(L)|2

T2|acq(L)|3
T1|rel(L)|4
T1|rel(L)|5
T1|rel(L)|6
T1|fork(T2)|7
",
    );
    assert_eq!(
        notes(&imported),
        [
            "line 2: T1 acquires lock L, which it already holds",
            "line 4: T2 acquires lock L, which T1 holds",
            "line 7: T1 releases lock L, which it does not hold",
            "line 8: T1 forks T2, which already exists",
        ]
    );
    assert_eq!(
        ops(&imported.trace),
        [
            (0, Op::Lock, 1),
            (0, Op::Lock, 2),
            (1, Op::Lock, 1),
            (0, Op::Unlock, 1),
            (0, Op::Unlock, 0),
            (0, Op::Unlock, 0),
            (0, Op::Create, 1)
        ]
    );
}

#[test]
fn malformed_line_is_an_error_with_its_number() {
    let error = |text: &[u8]| import(text).unwrap_err().to_string();
    assert_eq!(
        error(b"T1|w(x)|1\n\nT1|w(x)\n"),
        "line 3 is not of the form thread|op(operand)|location; correct or remove it"
    );
    assert_eq!(error(b"T1|w(\xff)|1"), "line 1 is not UTF-8; correct or remove it");
    assert_eq!(error(b"\x1f\x8b\x08"), "is compressed; unpack it first: gunzip");
    assert_eq!(error(b""), "has no events; an STD trace has lines like T1|w(x)|42");
    let chain: String = (0..2000).map(|n| format!("T{n}|fork(T{})|0\n", n + 1)).collect();
    assert_eq!(
        error(chain.as_bytes()),
        "line 1025 forks deeper than the 1024 generations of threads that unsnarl supports; correct or remove it"
    );
}

#[test]
fn wait_lasts_until_next_line_of_its_thread() {
    let imported = read(
        "\
T1|acq(L)|1
T1|wait(L)|2
T2|acq(L)|3
T2|notify(L)|4
T2|rel(L)|5
T1|rel(L)|6
T2|notifyAll(L)|7
",
    );
    assert_eq!(notes(&imported), [""; 0]);
    assert_eq!(
        ops(&imported.trace)[1..],
        [
            (0, Op::CondWait, 1 << 63),
            (1, Op::Lock, 1),
            (1, Op::Signal, 1),
            (1, Op::Unlock, 0),
            (0, Op::CondWake, 1 << 63),
            (0, Op::Unlock, 0),
            (1, Op::Broadcast, 0),
        ]
    );
}

#[test]
fn requests_and_transactions_are_skipped_and_counted() {
    let imported = read("T1|r(x)|1\nT1|begin(t)|2\nT1|req(L)|3\nT1|acq(L)|4\nT1|end(t)|5\nT1|rel(L)|6\n");
    assert_eq!(imported.skipped.into_iter().collect::<Vec<_>>(), [("begin", 1), ("end", 1), ("req", 1)]);
    assert_eq!(written(&imported.trace).lines().count(), 3);
}

#[test]
fn preemptions_are_switches_from_enabled_threads() {
    let imported = read(
        "\
T1|fork(T2)|1
T2|acq(L)|2
T1|acq(M)|3
T1|rel(M)|4
T2|rel(L)|5
T1|acq(L)|6
T2|w(x)|7
T1|join(T2)|8
",
    );
    let preempts: Vec<_> =
        imported.trace.events.iter().map(|event| event.flags.has(Flags::PREEMPTS)).collect();
    // T1 is preempted before it acquires M, and T2 in its critical section; T1 is not when it waits for L or
    // for T2's end.
    assert_eq!(preempts, [false, true, true, false, false, true, false, false]);
}

fn run(events: &[(u16, Op, u64, u64)]) -> Trace {
    let mut trace = looping::trace(0);
    trace.events = events
        .iter()
        .enumerate()
        .map(|(number, &(thread, op, addr, value))| Event {
            thread: ThreadIx(thread),
            op,
            flags: Flags::NONE,
            order: Order::Relaxed,
            site: SiteIx(number as u32 % 6),
            context: 0,
            size: 0,
            addr,
            value,
        })
        .collect();
    trace
}

#[test]
fn run_exports_only_supported_operations() {
    let mut trace = run(&[
        (0, Op::Start, 0, 0),
        (0, Op::Create, 0, 1),
        (0, Op::Lock, 16, 1),
        (0, Op::Lock, 16, 2),
        (0, Op::Unlock, 16, 1),
        (0, Op::CondWait, 32, 16),
        (1, Op::TryLock, 16, 0),
        (1, Op::TryLock, 16, 1),
        (1, Op::Signal, 32, 1),
        (1, Op::Unlock, 16, 0),
        (0, Op::CondWake, 32, 16),
        (0, Op::Unlock, 16, 0),
        (0, Op::ReadLock, 48, 0),
        (0, Op::RwUnlock, 48, 0),
        (1, Op::AtomicLoad, 64, 0),
        (1, Op::AtomicStore, 64, 1),
        (1, Op::AtomicRmw, 64, 1),
        (1, Op::AtomicCas, 64, 1),
        (1, Op::AtomicCas, 64, 1),
        (1, Op::Read, 72, 0),
        (1, Op::Write, 72, 0),
        (1, Op::SemPost, 80, 1),
        (0, Op::Join, 0, 1),
        (0, Op::Join, 0, 77),
    ]);
    trace.events[6].flags = Flags::FAILED;
    trace.events[18].flags = Flags::FAILED;
    let mut text = Vec::new();
    let exported = export(&trace, &mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "\
T0|fork(T1)|1
T0|acq(16)|2
T0|rel(16)|5
T1|acq(16)|1
T1|rel(16)|3
T0|acq(16)|4
T0|rel(16)|5
T0|acq(48)|0
T0|rel(48)|1
T1|r(64)|2
T1|w(64)|3
T1|w(64)|4
T1|w(64)|5
T1|r(64)|0
T1|r(72)|1
T1|w(72)|2
T0|join(T1)|4
"
    );
    assert_eq!(exported.lines, 17);
    assert_eq!(
        exported.skipped.into_iter().collect::<Vec<_>>(),
        [
            (Op::Start, 1),
            (Op::Join, 1),
            (Op::Lock, 1),
            (Op::TryLock, 1),
            (Op::Unlock, 1),
            (Op::Signal, 1),
            (Op::SemPost, 1)
        ]
    );
}

#[test]
fn release_after_join_is_exported() {
    let text = "T0|acq(5)|1\nT1|join(T0)|2\nT0|rel(5)|3\n";
    assert_eq!(written_with_names(&read(text)), text);
}

proptest! {
    #[test]
    fn exported_trace_imports_unchanged(trace in arbitrary::trace()) {
        let text = written(&trace);
        // Locks may be in disorder in such a trace, and only outermost levels are written. Text that was
        // exported once has no inner levels any more.
        if !text.is_empty() {
            let imported = read(&text);
            prop_assert_eq!(written_with_names(&imported), text);
        }
    }

    #[test]
    fn import_yields_consistent_trace_or_error(
        lines in proptest::collection::vec(
            "(T[0-3]|[0-3])\\|(r|w|acq|rel|fork|join|begin|end|req|wait|notify|notifyAll)\\([xy0-3]\\)\\|-?[0-9]",
            0..40,
        ),
        junk in proptest::option::of(".{0,20}"),
    ) {
        let text = lines.into_iter().chain(junk).collect::<Vec<_>>().join("\n");
        let imported = import(text.as_bytes());
        // The streaming import yields the same, byte for byte.
        let long = import_streaming(|| Ok(text.as_bytes()), Cursor::new(Vec::new()));
        match (&imported, long) {
            (Ok(imported), Ok(long)) => {
                let mut bytes = Vec::new();
                prop_assert_eq!(long.odd, imported.notes.len() as u64);
                prop_assert_eq!(&long.notes, &imported.notes);
                prop_assert_eq!(long.write(&mut bytes).unwrap(), imported.trace.stats());
                prop_assert_eq!(bytes, encode(&imported.trace));
            }
            (imported, long) => {
                let errors = (imported.as_ref().err().map(ToString::to_string), long.err().map(|e| e.to_string()));
                prop_assert!(errors.0.is_some() && errors.0 == errors.1, "{errors:?}");
            }
        }
        if let Ok(imported) = imported {
            prop_assert_eq!(&decode(&encode(&imported.trace)).unwrap(), &imported.trace);
            written_with_names(&imported);
        }
    }
}
