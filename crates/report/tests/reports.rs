//! Snapshots of the reports. `INSTA_UPDATE=always cargo test -p unsnarl-report` rewrites them.

mod common;

use common::{LIBC, Source, TraceBuilderExt, site, trace};
use insta::{assert_json_snapshot, assert_snapshot};
use unsnarl_model::{
    Action, Backtrace, Divergence, Flags, Misuse, Op, Order, Outcome, OutcomeKind, Site, ThreadId, ThreadIx,
    Trace, Wait, Warning,
};
use unsnarl_report::{
    RenderOptions, divergence_json, divergence_text, interleaving, outcome_json, outcome_text, stats_json,
    warnings_json,
};

const HITS: u64 = 0x4010;

fn counter_source() -> Source {
    Source::new(
        "int hits;
void *bump(void *arg) {
  int seen = hits;
  hits = seen + 1;
  return 0;
}
int main(void) {
  pthread_t t[2];
  pthread_create(&t[0], 0, bump, 0);
  pthread_create(&t[1], 0, bump, 0);
  pthread_join(t[0], 0);
  pthread_join(t[1], 0);
  assert(hits == 2);
}",
        &[(HITS, "hits")],
    )
}

/// Two threads increment a counter, and one update is lost.
fn counter() -> Trace {
    let mut t = trace(3, 2);
    t.play(0, 9, Op::Create, 0, 1)
        .play(0, 10, Op::Create, 0, 2)
        .play(1, 2, Op::Start, 0, 0)
        .play(1, 3, Op::Read, HITS, 0)
        .play(2, 2, Op::Start, 0, 0)
        .flag(Flags::PREEMPTS)
        .play(2, 3, Op::Read, HITS, 0)
        .play(2, 4, Op::Write, HITS, 0)
        .play(2, 5, Op::End, 0, 0)
        .play(1, 4, Op::Write, HITS, 1)
        .play(1, 5, Op::End, 0, 0)
        .play(0, 11, Op::Join, 0, 1)
        .flag(Flags::BLOCKED)
        .play(0, 12, Op::Join, 0, 2)
        .play(0, 13, Op::Read, HITS, 1);
    t.outcome = Outcome {
        kind: OutcomeKind::Assertion,
        thread: Some(ThreadIx(0)),
        site: Some(site(13)),
        message: "main.c:13: main: Assertion `hits == 2' failed.".to_owned(),
        backtraces: vec![Backtrace {
            thread: ThreadIx(0),
            frames: vec![site(LIBC + 1), site(LIBC + 2), site(13), site(LIBC + 3)],
        }],
        ..Outcome::exit(0)
    };
    t
}

/// Two threads take two locks in opposite order.
fn deadlock() -> (Trace, Source) {
    let source = Source::new(
        "pthread_mutex_t a;
void *left(void *arg) {
  pthread_mutex_lock(&a);
  pthread_mutex_lock(arg);
}
void *right(void *arg) {
  pthread_mutex_lock(arg);
  pthread_mutex_lock(&a);
}
int main(void) {
  pthread_create(&t1, 0, left, &b);
  pthread_create(&t2, 0, right, &b);
  pthread_join(t1, 0);
}",
        &[(0x10, "a")],
    );
    let mut t = trace(3, 2);
    t.threads[2].start = site(6);
    t.threads[1].name = "lefty".to_owned();
    t.play(0, 11, Op::Create, 0, 1)
        .play(0, 12, Op::Create, 0, 2)
        .play(1, 2, Op::Start, 0, 0)
        .play(1, 3, Op::Lock, 0x10, 1)
        .play(2, 6, Op::Start, 0, 0)
        .flag(Flags::PREEMPTS)
        .play(2, 7, Op::Lock, 0x7fff_1000, 1);
    let wait = |thread, op, addr, line, holder| Wait {
        thread: ThreadIx(thread),
        op,
        addr,
        site: site(line),
        holders: vec![ThreadIx(holder)],
    };
    t.outcome = Outcome {
        kind: OutcomeKind::Deadlock,
        waits: vec![
            wait(0, Op::Join, 0, 13, 1),
            wait(1, Op::Lock, 0x7fff_1000, 4, 2),
            wait(2, Op::Lock, 0x10, 8, 1),
        ],
        ..Outcome::exit(0)
    };
    (t, source)
}

/// One of each kind of operation.
fn all_operations() -> (Trace, Source) {
    let names = [
        (0x10, "m"),
        (0x20, "c"),
        (0x30, "rw"),
        (0x40, "s"),
        (0x50, "bar"),
        (0x60, "once"),
        (0x70, "word"),
        (0x80, "flag"),
        (0x90, "between read and write"),
    ];
    let source = Source::new("int main(void) {\n  all_of_it();\n", &names);
    let mut t = trace(2, 2);
    t.play(0, 2, Op::Create, 0, 1)
        .play(1, 2, Op::Start, 0, 0)
        .play(1, 2, Op::LockInit, 0x10, 0)
        .play(1, 2, Op::Lock, 0x10, 1)
        .play(1, 2, Op::Lock, 0x10, 2)
        .play(1, 2, Op::Unlock, 0x10, 1)
        .play(1, 2, Op::TryLock, 0x11, 0)
        .flag(Flags::FAILED)
        .play(1, 2, Op::CondWait, 0x20, 0x10)
        .play(0, 2, Op::Signal, 0x20, 1)
        .play(1, 2, Op::CondWake, 0x20, 0x10)
        .woken_by(8)
        .play(1, 2, Op::CondWait, 0x20, 0x10)
        .play(1, 2, Op::CondWake, 0x20, 0x10)
        .flag(Flags::TIMED_OUT)
        .play(1, 2, Op::Signal, 0x20, 0)
        .play(1, 2, Op::Broadcast, 0x20, 3)
        .play(1, 2, Op::ReadLock, 0x30, 0)
        .play(1, 2, Op::WriteLock, 0x30, 0)
        .play(1, 2, Op::RwUnlock, 0x30, 1)
        .play(1, 2, Op::SemInit, 0x40, 2)
        .play(1, 2, Op::SemWait, 0x40, 1)
        .play(1, 2, Op::SemTryWait, 0x40, 0)
        .flag(Flags::FAILED)
        .play(1, 2, Op::BarrierInit, 0x50, 2)
        .play(1, 2, Op::BarrierArrive, 0x50, 0)
        .play(1, 2, Op::BarrierLeave, 0x50, 0)
        .play(1, 2, Op::OnceBegin, 0x60, 0)
        .play(1, 2, Op::OncePass, 0x60, 0)
        .play(1, 2, Op::FutexWait, 0x70, 2)
        .play(1, 2, Op::FutexWake, 0x70, 1)
        .play(1, 2, Op::AtomicLoad, 0x80, 1)
        .play(1, 2, Op::AtomicStore, 0x80, 0xffff_ffff)
        .play(1, 2, Op::AtomicRmw, 0x80, 7);
    t.events.last_mut().unwrap().order = Order::Relaxed;
    let later = t.plan.epoch + 1_500_000;
    t.play(1, 2, Op::AtomicCas, 0x80, 7)
        .flag(Flags::FAILED)
        .play(1, 2, Op::Fence, 0, 0)
        .play(1, 2, Op::Read, 0x7ff0_0000, 0x7ff0_1234)
        .play(1, 2, Op::Write, 0x7ff0_0004, 3)
        .play(1, 2, Op::Yield, 0, 0)
        .play(1, 2, Op::Sleep, 0, later)
        .play(1, 2, Op::Checkpoint, 0, 0)
        .play(1, 2, Op::Point, 0, 0x90)
        .play(1, 2, Op::Point, 0, 0x91)
        .play(1, 2, Op::End, 0, 0)
        .play(0, 2, Op::Exit, 0, 3);
    t.outcome = Outcome::exit(3);
    (t, source)
}

fn options(width: usize) -> RenderOptions {
    RenderOptions { width, ..RenderOptions::default() }
}

#[test]
fn lost_update_in_columns() {
    assert_snapshot!(interleaving(&counter(), &mut counter_source(), &options(110)));
}

#[test]
fn lost_update_in_lines_on_narrow_terminal() {
    assert_snapshot!(interleaving(&counter(), &mut counter_source(), &options(60)));
}

#[test]
fn locations_are_shown_without_sources() {
    let mut source = counter_source();
    source.readable = false;
    assert_snapshot!(interleaving(&counter(), &mut source, &options(90)));
}

#[test]
fn colours_mark_threads_preemptions_and_failures() {
    let text =
        interleaving(&counter(), &mut counter_source(), &RenderOptions { colour: true, ..options(110) });
    assert_snapshot!(text.replace('\x1b', "^"));
}

#[test]
fn deadlock_shows_wait_cycle() {
    let (trace, mut source) = deadlock();
    assert_snapshot!(interleaving(&trace, &mut source, &options(110)));
}

#[test]
fn operations_have_descriptions() {
    let (trace, mut source) = all_operations();
    assert_snapshot!(interleaving(&trace, &mut source, &RenderOptions { full: true, ..options(100) }));
}

#[test]
fn many_threads_use_line_layout() {
    let mut t = trace(9, 2);
    for n in 1..9 {
        t.play(0, 9, Op::Create, 0, n);
    }
    for n in 1..9 {
        t.play(n, 3, Op::Read, HITS, 0);
        if n > 1 {
            t.flag(Flags::PREEMPTS);
        }
    }
    assert_snapshot!(interleaving(&t, &mut counter_source(), &options(100)));
}

#[test]
fn long_stretches_are_abridged_without_full() {
    let mut t = trace(2, 2);
    t.play(0, 9, Op::Create, 0, 1).play(1, 2, Op::Start, 0, 0);
    for n in 0..50 {
        t.play(1, 3, Op::Read, HITS, n).play(1, 4, Op::Write, HITS, n);
    }
    t.play(0, 13, Op::Read, HITS, 50).flag(Flags::PREEMPTS);
    assert_snapshot!(interleaving(&t, &mut counter_source(), &options(100)));
    let all = interleaving(&t, &mut counter_source(), &RenderOptions { full: true, ..options(100) });
    assert!(all.lines().count() > 103 && !all.contains("abridged"));
}

#[test]
fn unobservable_accesses_are_omitted() {
    const OWN: u64 = 0x7ff0_0000;
    let mut t = trace(2, 2);
    t.play(0, 9, Op::Create, 0, 1).play(1, 2, Op::Start, 0, 0);
    for n in 0..20 {
        // Each thread's own memory, from the user's code and from a library, and memory that both only read.
        t.play(1, LIBC + 4, Op::Write, OWN + 8 * n, n).play(1, 3, Op::Read, OWN + 8 * n, n);
        t.play(0, LIBC + 4, Op::Write, 2 * OWN + 8 * n, n).play(0, 12, Op::Read, 3 * OWN, n);
        t.play(1, 3, Op::Read, 3 * OWN, n);
    }
    t.play(1, LIBC + 4, Op::Write, 4 * OWN, 7).play(0, 12, Op::Read, 4 * OWN + 4, 7).play(
        1,
        3,
        Op::Read,
        HITS,
        0,
    );
    assert_snapshot!(interleaving(&t, &mut counter_source(), &options(100)));
}

#[test]
fn library_wait_is_described_from_user_code() {
    let mut t = trace(2, 2);
    t.play(0, 9, Op::Create, 0, 1)
        .play(1, 2, Op::Start, 0, 0)
        .play(1, 4, Op::Signal, 0x20, 0)
        .play(1, 5, Op::End, 0, 0)
        .play(0, LIBC + 5, Op::CondWait, 0x20, 0x10);
    t.outcome = Outcome {
        kind: OutcomeKind::Deadlock,
        waits: vec![Wait {
            thread: ThreadIx(0),
            op: Op::CondWake,
            addr: 0x20,
            site: site(LIBC + 5),
            holders: vec![],
        }],
        backtraces: vec![Backtrace {
            thread: ThreadIx(0),
            frames: vec![site(LIBC + 5), site(LIBC + 6), site(4), site(LIBC + 7), site(12), site(LIBC)],
        }],
        ..Outcome::exit(0)
    };
    assert_snapshot!(outcome_text(&t, &mut counter_source(), &options(100)));
    assert_snapshot!(outcome_text(&t, &mut counter_source(), &RenderOptions { full: true, ..options(100) }));
}

#[test]
fn failing_status_shows_stderr_tail() {
    let mut t = trace(1, 2);
    t.outcome = Outcome::exit(3);
    t.output.stderr = b"one\ntwo\n\nthree\nfour\n".to_vec();
    assert_snapshot!(outcome_text(&t, &mut counter_source(), &options(100)));
}

#[test]
fn misuse_as_failure_is_reported_once() {
    let mut t = counter();
    let warning = |thread| Warning {
        misuse: Misuse::UnlockNotHeld,
        thread: ThreadIx(thread),
        site: site(4),
        addr: HITS,
        at: 3,
        detail: String::new(),
    };
    t.warnings = vec![warning(1), warning(2), warning(2)];
    t.outcome = Outcome {
        kind: OutcomeKind::Misuse,
        thread: Some(ThreadIx(1)),
        site: Some(site(4)),
        message: Misuse::UnlockNotHeld.description().to_owned(),
        ..Outcome::exit(0)
    };
    assert_snapshot!(outcome_text(&t, &mut counter_source(), &options(100)));
}

#[test]
fn empty_trace_is_rendered() {
    assert_snapshot!(interleaving(&trace(1, 2), &mut counter_source(), &options(80)));
}

#[test]
fn lines_respect_requested_width() {
    for width in 40..130 {
        for (trace, mut source) in [(counter(), counter_source()), deadlock(), all_operations()] {
            let options = RenderOptions { full: true, ..options(width) };
            let text = interleaving(&trace, &mut source, &options);
            let outcome = outcome_text(&trace, &mut source, &options);
            let table = text.strip_suffix(&outcome).unwrap().lines().skip(1);
            let widest = table.max_by_key(|line| line.chars().count()).unwrap();
            assert!(widest.chars().count() <= width, "{width}: {widest}");
        }
    }
}

#[test]
fn warning_names_the_object_of_its_time() {
    const LOCK: u64 = 0x7ff0_0010;
    let mut t = trace(1, 2);
    // Two mutexes, one after the other at the same address.
    for _ in 0..2 {
        t.play(0, 2, Op::LockInit, LOCK, 0);
        t.play(0, 3, Op::Unlock, LOCK, 0).flag(Flags::FAILED);
        t.play(0, 4, Op::LockDestroy, LOCK, 0);
    }
    let warning = |at| Warning {
        misuse: Misuse::UnlockNotHeld,
        thread: ThreadIx(0),
        site: site(3),
        addr: LOCK,
        at,
        detail: String::new(),
    };
    t.warnings = vec![warning(1), warning(4)];
    let json = warnings_json(&t, &mut counter_source());
    assert_eq!((&json[0]["object"], &json[1]["object"]), (&"lock#1".into(), &"lock#2".into()));
    let text = outcome_text(&t, &mut counter_source(), &options(100));
    assert!(text.contains(": `lock#1` at") && text.contains(": `lock#2` at"), "{text}");
}

#[test]
fn crash_with_warnings() {
    let mut t = counter();
    t.outcome.kind = OutcomeKind::Signal(11);
    t.outcome.message = "at address 0x8".to_owned();
    t.threads[0].name = "boss".to_owned();
    t.warnings = vec![
        Warning {
            misuse: Misuse::UnlockNotHeld,
            thread: ThreadIx(1),
            site: site(4),
            addr: HITS,
            at: 3,
            detail: String::new(),
        },
        Warning {
            misuse: Misuse::NotModelled,
            thread: ThreadIx(2),
            site: site(3),
            addr: 0,
            at: 5,
            detail: "fork".to_owned(),
        },
    ];
    assert_snapshot!(outcome_text(&t, &mut counter_source(), &options(100)));
    assert_json_snapshot!(warnings_json(&t, &mut counter_source()));
}

#[test]
fn warning_about_the_program_names_no_thread() {
    let mut t = counter();
    t.outcome = Outcome::exit(0);
    t.program_warnings = vec!["library functions are bound at their first call".to_owned()];
    let text = outcome_text(&t, &mut counter_source(), &options(100));
    assert!(text.ends_with("\nwarning: library functions are bound at their first call\n"), "{text}");
    let json = warnings_json(&t, &mut counter_source());
    let expected = serde_json::json!([
        { "kind": "Program", "text": "library functions are bound at their first call" }
    ]);
    assert_eq!(json, expected);
}

#[test]
fn relocked_mutex_waits_for_itself() {
    let (mut t, mut source) = deadlock();
    t.outcome.waits.truncate(2);
    t.outcome.waits[1].addr = 0x10;
    t.outcome.waits[1].holders = vec![ThreadIx(1)];
    assert_snapshot!(outcome_text(&t, &mut source, &options(100)));
}

#[test]
fn outcomes_as_json() {
    let (t, mut source) = deadlock();
    assert_json_snapshot!("deadlock_json", outcome_json(&t, &mut source));
    assert_json_snapshot!("assertion_json", outcome_json(&counter(), &mut counter_source()));
    assert_json_snapshot!("exit_json", outcome_json(&trace(1, 2), &mut counter_source()));
    let mut crash = counter();
    crash.outcome.kind = OutcomeKind::Signal(11);
    assert_eq!(outcome_json(&crash, &mut counter_source())["signal"], "SIGSEGV");
    assert_json_snapshot!("stats_json", stats_json(&counter().stats()));
}

#[test]
fn divergence_by_another_exit_status_shows_both() {
    let ended = |status| {
        let mut t = trace(1, 2);
        t.play(0, 4, Op::Exit, 0, status);
        t
    };
    let (recorded, replayed) = (ended(3), ended(4));
    let divergence = recorded.first_difference(&replayed).expect("another status");
    let text = divergence_text(&divergence, &recorded, &replayed, &mut counter_source());
    assert!(text.contains("(status 3)\n") && text.contains("(status 4)\n"), "{text}");
}

#[test]
fn divergence_at_one_line_shows_offsets() {
    let action = |offset| {
        let site = Site { offset, ..site(4) };
        (Action { op: Op::Read, site }, "/elsewhere/libz.so.1".to_owned())
    };
    let divergence = Divergence {
        point: 7,
        thread: ThreadId::main(),
        expected: Some(action(0x10)),
        actual: Some(action(0x20)),
    };
    let text = divergence_text(&divergence, &counter(), &counter(), &mut counter_source());
    assert!(text.contains("+0x10") && text.contains("+0x20"), "{text}");
}

#[test]
fn divergence_shows_expected_and_actual() {
    let action = |op, line| (Action { op, site: site(line) }, "/home/me/work/program".to_owned());
    let elsewhere = (Action { op: Op::Lock, site: site(4) }, "/lib/libz.so.1".to_owned());
    let mut divergence = Divergence {
        point: 7,
        thread: ThreadId::main().child(2),
        expected: Some(action(Op::Write, 4)),
        actual: Some(action(Op::Read, 3)),
    };
    assert_snapshot!(divergence_text(&divergence, &counter(), &counter(), &mut counter_source()));
    assert_json_snapshot!(divergence_json(&divergence, &counter(), &mut counter_source()));
    divergence.expected = None;
    divergence.actual = Some(elsewhere);
    assert_snapshot!(divergence_text(&divergence, &counter(), &counter(), &mut counter_source()));
    divergence.actual = None;
    assert_snapshot!(divergence_text(&divergence, &counter(), &counter(), &mut counter_source()));
}
