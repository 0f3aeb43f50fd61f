//! Small scenarios with possible and impossible errors.

mod common;

use common::std;
use unsnarl_model::{Event, Flags, Op, Order, Trace};
use unsnarl_predict::{
    InconsistencyReason, PredictOptions, Prediction, ReadRule, WaitTarget, WaitingThread, predict,
};
use unsnarl_semantics::Contradiction;

fn whole(trace: &Trace) -> Prediction {
    look(trace, PredictOptions { window: None, ..PredictOptions::default() })
}

fn look(trace: &Trace, options: PredictOptions) -> Prediction {
    predict(trace, &options, &mut |_| {}).expect("the trace is in order")
}

/// Returns the locations of each race, in order.
fn races(trace: &Trace, prediction: &Prediction) -> Vec<[u64; 2]> {
    let location = |number: u64| trace.site(&trace.events[number as usize]).offset;
    let mut all: Vec<[u64; 2]> = prediction.races.iter().map(|race| race.accesses.map(location)).collect();
    all.sort_unstable();
    all
}

/// The paper's listing 1, main's critical section first. Numbers are those of the listing's lines.
const LISTING: &str = "T1|w(y)|4
    T1|fork(T2)|5
    T1|r(y)|60
    T1|w(y)|6
    T1|acq(m)|7
    T1|r(x)|80
    T1|w(x)|8
    T1|rel(m)|9
    T2|acq(m)|14
    T2|r(x)|150
    T2|w(x)|15
    T2|rel(m)|16
    T2|r(y)|170
    T2|w(y)|17
    T1|join(T2)|10";

#[test]
fn paper_listing_races_with_free_reads() {
    let trace = std(LISTING);
    let options = PredictOptions { window: None, free_reads: true, ..PredictOptions::default() };
    let prediction = look(&trace, options);
    assert_eq!(races(&trace, &prediction), [[6, 17], [6, 170], [60, 17]]);
    assert!(prediction.races.iter().all(|race| race.witness.reads == ReadRule::Free));
}

#[test]
fn paper_listing_witness_reverses_critical_sections() {
    let trace = std(LISTING);
    let options = PredictOptions { window: None, free_reads: true, ..PredictOptions::default() };
    let prediction = look(&trace, options);
    let race = prediction.races.iter().find(|race| race.accesses == [3, 13]).expect("lines 6 and 17");
    let locks = race.witness.order(&trace.events).into_iter().map(|number| &trace.events[number as usize]);
    let locks: Vec<(u16, Op)> = locks
        .filter(|event: &&Event| matches!(event.op, Op::Lock | Op::Unlock))
        .map(|event| (event.thread.0, event.op))
        .collect();
    assert_eq!(locks, [(1, Op::Lock), (1, Op::Unlock)]);
}

#[test]
fn paper_listing_has_no_race_with_same_reads() {
    let trace = std(LISTING);
    assert!(whole(&trace).races.is_empty());
}

#[test]
fn race_hidden_by_lock_order_is_found() {
    let trace = std("T1|fork(T2)|1
        T1|w(y)|2
        T1|acq(m)|3
        T1|w(a)|4
        T1|rel(m)|5
        T2|acq(m)|6
        T2|w(b)|7
        T2|rel(m)|8
        T2|w(y)|9");
    assert_eq!(races(&trace, &whole(&trace)), [[2, 9]]);
}

#[test]
fn lock_protected_accesses_do_not_race() {
    let trace = std("T1|fork(T2)|1
        T1|acq(m)|2
        T1|w(x)|3
        T1|rel(m)|4
        T2|acq(m)|5
        T2|w(x)|6
        T2|rel(m)|7");
    let prediction = whole(&trace);
    assert!(prediction.races.is_empty());
    assert_eq!(prediction.figures.candidates, 0, "the filter is enough");
}

#[test]
fn accesses_ordered_by_create_and_join_do_not_race() {
    let trace = std("T1|w(x)|1
        T1|fork(T2)|2
        T2|w(x)|3
        T1|join(T2)|4
        T1|w(x)|5");
    assert!(whole(&trace).races.is_empty());
}

#[test]
fn later_loop_access_can_race_when_first_does_not() {
    // The value that the other thread reads is written between the two.
    let trace = std("T1|fork(T2)|1
        T1|w(x)|2
        T1|w(z)|3
        T1|w(x)|2
        T2|r(z)|4
        T2|w(x)|5");
    let prediction = whole(&trace);
    assert_eq!(prediction.races.iter().map(|race| race.accesses).collect::<Vec<_>>(), [[3, 5], [2, 4]]);
}

#[test]
fn search_finds_critical_section_reversal() {
    // To make both writes of y adjacent, the second thread's critical section must come first, and complete,
    // because the first thread is in its own section then.
    let trace = std("T1|fork(T2)|1
        T1|acq(m)|2
        T1|w(y)|3
        T1|rel(m)|4
        T2|acq(m)|5
        T2|w(z)|6
        T2|rel(m)|7
        T2|w(y)|8");
    let prediction = whole(&trace);
    assert_eq!(races(&trace, &prediction), [[3, 8]]);
    assert_eq!(prediction.figures.searched, 1);
}

const PHILOSOPHERS: &str = "T0|fork(T1)|1
    T0|fork(T2)|2
    T0|fork(T3)|3
    T1|acq(a)|10
    T1|acq(b)|11
    T1|rel(b)|12
    T1|rel(a)|13
    T2|acq(b)|20
    T2|acq(c)|21
    T2|rel(c)|22
    T2|rel(b)|23
    T3|acq(c)|30
    T3|acq(a)|31
    T3|rel(a)|32
    T3|rel(c)|33";

#[test]
fn deadlock_of_three_threads_is_found() {
    let trace = std(PHILOSOPHERS);
    let prediction = whole(&trace);
    let [deadlock] = &prediction.deadlocks[..] else { panic!("one deadlock: {prediction:?}") };
    let mut waits: Vec<u64> =
        deadlock.cycle.iter().map(|w| trace.site(&trace.events[w.event as usize]).offset).collect();
    waits.sort_unstable();
    assert_eq!(waits, [11, 21, 31]);
    assert!(deadlock.cycle.iter().all(|waits| waits.holds.len() == 1));
}

#[test]
fn gate_lock_prevents_deadlock() {
    let trace = std("T0|fork(T1)|1
        T0|fork(T2)|2
        T1|acq(g)|9
        T1|acq(a)|10
        T1|acq(b)|11
        T1|rel(b)|12
        T1|rel(a)|13
        T1|rel(g)|14
        T2|acq(g)|19
        T2|acq(b)|20
        T2|acq(a)|21
        T2|rel(a)|22
        T2|rel(b)|23
        T2|rel(g)|24");
    let prediction = whole(&trace);
    assert!(prediction.deadlocks.is_empty());
    assert_eq!(prediction.figures.cycles, 0);
}

#[test]
fn join_order_prevents_deadlock() {
    let trace = std("T0|fork(T1)|1
        T1|acq(a)|10
        T1|acq(b)|11
        T1|rel(b)|12
        T1|rel(a)|13
        T0|join(T1)|2
        T0|acq(b)|20
        T0|acq(a)|21
        T0|rel(a)|22
        T0|rel(b)|23");
    assert!(whole(&trace).deadlocks.is_empty());
}

#[test]
fn single_thread_cannot_form_a_cycle() {
    let trace = std("T1|acq(a)|10
        T1|acq(b)|11
        T1|rel(b)|12
        T1|rel(a)|13
        T1|acq(b)|20
        T1|acq(a)|21
        T1|rel(a)|22
        T1|rel(b)|23");
    assert!(whole(&trace).deadlocks.is_empty());
}

#[test]
fn join_while_holding_needed_lock_deadlocks() {
    let trace = std("T0|fork(T1)|1
        T1|acq(a)|10
        T1|rel(a)|11
        T0|acq(a)|2
        T0|join(T1)|3
        T0|rel(a)|4");
    let prediction = whole(&trace);
    assert_eq!(prediction.deadlocks.len(), 1);
}

#[test]
fn windows_know_locks_held_at_their_start() {
    // The window is cut after the third event: the first thread still holds the lock.
    let trace = std("T1|fork(T2)|1
        T1|acq(m)|2
        T1|w(z)|3
        T1|w(x)|4
        T1|rel(m)|5
        T2|acq(m)|6
        T2|w(x)|7
        T2|rel(m)|8
        T2|w(y)|9
        T1|w(y)|10");
    let prediction = look(&trace, PredictOptions { window: Some(3), ..PredictOptions::default() });
    assert_eq!(prediction.figures.windows, 4);
    assert!(races(&trace, &prediction).is_empty(), "the accesses are in different windows");
    let prediction = look(&trace, PredictOptions { window: Some(7), ..PredictOptions::default() });
    assert_eq!(races(&trace, &prediction), [[9, 10]]);
    let race = &prediction.races[0];
    assert_eq!(race.witness.before, 7);
}

fn inconsistency(text: &str) -> (u64, InconsistencyReason) {
    let inconsistency =
        predict(&std(text), &PredictOptions::default(), &mut |_| {}).expect_err("it contradicts itself");
    (inconsistency.event, inconsistency.reason)
}

#[test]
fn inconsistent_trace_is_rejected_with_its_event() {
    assert!(matches!(
        inconsistency("T1|w(x)|1\nT1|rel(m)|2"),
        (1, InconsistencyReason::Contradiction(Contradiction::NotHeld(_)))
    ));
    assert!(matches!(
        inconsistency("T1|acq(m)|1\nT2|acq(m)|2"),
        (1, InconsistencyReason::Contradiction(Contradiction::HeldByAnother { .. }))
    ));
    assert!(matches!(
        inconsistency("T1|join(T7)|1"),
        (0, InconsistencyReason::Contradiction(Contradiction::JoinOfUnknownThread(1)))
    ));
    assert!(matches!(
        inconsistency("T1|wait(m)|1"),
        (0, InconsistencyReason::Contradiction(Contradiction::WaitWithoutLock(_)))
    ));
    assert!(matches!(
        inconsistency("T1|fork(T2)|1\nT2|w(x)|2\nT1|join(T2)|3\nT2|w(x)|4"),
        (3, InconsistencyReason::Contradiction(Contradiction::EventAfterJoin))
    ));
}

#[test]
fn checker_rejects_invalid_witnesses() {
    use unsnarl_predict::{CheckedState, Checker, WitnessError};
    let trace = std("T1|fork(T2)|1
        T1|w(y)|2
        T2|w(y)|3
        T2|w(z)|4");
    let prediction = whole(&trace);
    let [race] = &prediction.races[..] else { panic!("one race") };
    let checker = Checker::new(&trace.events, &CheckedState::default(), ReadRule::Same);
    assert_eq!(checker.race(race), Ok(()));
    let mut wrong = race.clone();
    wrong.accesses[1] = 3;
    wrong.witness.meet[1] = 3;
    assert_eq!(checker.race(&wrong), Err(WitnessError::NotNext(3)));
    let mut wrong = race.clone();
    wrong.accesses.reverse();
    assert!(matches!(checker.race(&wrong), Err(WitnessError::NotAnError(_))));
}

/// Predicts with free reads, to be confirmed by runs.
fn to_be_run(text: &str) -> Prediction {
    look(&std(text), PredictOptions { window: None, free_reads: true, ..PredictOptions::default() })
}

const SIGNAL: &str = "T1|fork(T2)|1
    T1|acq(m)|2
    T1|wait(m)|3
    T2|acq(m)|4
    T2|notify(m)|5
    T2|rel(m)|6
    T1|rel(m)|7";

#[test]
fn lost_signal_is_predicted_when_runs_confirm() {
    let prediction = to_be_run(SIGNAL);
    let [deadlock] = &prediction.deadlocks[..] else { panic!("{:?}", prediction.deadlocks) };
    assert!(
        matches!(deadlock.cycle[..], [WaitingThread { target: WaitTarget::Lost(_), .. }]),
        "{deadlock:?}"
    );
    assert_eq!(whole(&std(SIGNAL)).deadlocks, []);
}

#[test]
fn predicate_check_before_wait_prevents_lost_signal() {
    let looks =
        SIGNAL.replace("T1|wait", "T1|r(x)|20\nT1|wait").replace("T2|notify", "T2|w(x)|40\nT2|notify");
    assert_eq!(to_be_run(&looks).deadlocks, []);
    // A value that is read without the lock may change before the lock is acquired.
    let early = SIGNAL.replace("T1|acq", "T1|r(x)|20\nT1|acq").replace("T2|notify", "T2|w(x)|40\nT2|notify");
    assert_eq!(to_be_run(&early).deadlocks.len(), 1);
}

#[test]
fn wait_holding_lock_needed_by_signaller_deadlocks() {
    let text = "T1|fork(T2)|1
        T2|acq(l)|2
        T2|rel(l)|3
        T1|acq(l)|4
        T1|acq(m)|5
        T1|r(x)|6
        T1|wait(m)|7
        T2|acq(m)|8
        T2|w(x)|9
        T2|notify(m)|10
        T2|rel(m)|11
        T1|rel(m)|12
        T1|rel(l)|13";
    let prediction = to_be_run(text);
    let [deadlock] = &prediction.deadlocks[..] else { panic!("{:?}", prediction.deadlocks) };
    let target: Vec<WaitTarget> = deadlock.cycle.iter().map(|waits| waits.target).collect();
    assert!(matches!(
        target[..],
        [WaitTarget::Lock(_), WaitTarget::Done(_)] | [WaitTarget::Done(_), WaitTarget::Lock(_)]
    ));
    assert_eq!(whole(&std(text)).deadlocks, []);
}

#[test]
fn uninstrumented_ordering_suppresses_unconfirmed_race() {
    let trace = std("T1|fork(T2)|1
        T1|w(x)|2
        T2|w(x)|3");
    assert_eq!(whole(&trace).races.len(), 1);
    for (op, flags, races) in [
        (Op::FutexWake, Flags::NONE, 0),
        (Op::FutexWait, Flags::FAILED, 0),
        (Op::AtomicLoad, Flags::FOREIGN, 0),
        (Op::AtomicStore, Flags::FOREIGN, 1),
        (Op::AtomicLoad, Flags::NONE, 1),
    ] {
        let mut trace = trace.clone();
        let last = trace.events.len() - 1;
        let order = Order::SeqCst;
        let uninstrumented =
            Event { op, flags, order, addr: 0x4000, size: 4, value: 0, ..trace.events[last] };
        trace.events.insert(last, uninstrumented);
        assert_eq!(whole(&trace).races.len(), races, "{op:?}");
    }
}
