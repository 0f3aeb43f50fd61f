//! Proofs of minimality are correct: they are compared with all schedules.

mod toy;

use proptest::prelude::*;
use toy::{InMemory, Ins, Program, failing, programs};
use unsnarl_model::{Fidelity, Plan, Policy, Prefix, Segment, Signature, ThreadId, ThreadIx, Trace};
use unsnarl_simplify::{
    Cost,
    combined::{self, SimplifyOptions},
    prove::{Mismatch, ProofLimits, ProofVerdict, check, prove},
};

/// Runs exactly these picks and no more.
fn follow(program: &Program, picks: &[ThreadId]) -> Trace {
    let mut threads: Vec<ThreadId> = Vec::new();
    let mut segments = Vec::new();
    for pick in picks {
        let at = threads.iter().position(|known| known == pick).unwrap_or_else(|| {
            threads.push(pick.clone());
            threads.len() - 1
        });
        segments.push(Segment { thread: ThreadIx(at as u16), points: 1 });
    }
    let prefix = Prefix { threads, segments, fidelity: Fidelity::Exact, ..Prefix::default() };
    program.run(&Plan { prefix, tail: Policy::Stop, ..Plan::default() })
}

/// Returns the least cost of all schedules with this failure; `None` if there are too many schedules.
fn least(program: &Program, signature: &Signature, most: usize) -> Option<Cost> {
    let mut best: Option<Cost> = None;
    let mut open: Vec<Vec<ThreadId>> = vec![Vec::new()];
    let mut runs = 0;
    while let Some(picks) = open.pop() {
        runs += 1;
        if runs > most {
            return None;
        }
        // Without picks nothing is prescribed, so the first pick is always main.
        let picks = if picks.is_empty() && !program.bare { vec![ThreadId::main()] } else { picks };
        let trace = if picks.is_empty() { None } else { Some(follow(program, &picks)) };
        let known: Vec<ThreadId> = match &trace {
            Some(trace) if trace.events.len() < picks.len() => continue,
            Some(trace) if trace.outcome.limit().is_none() => {
                if trace.signature() == *signature {
                    let cost = Cost::of(&trace.events);
                    best = Some(best.map_or(cost, |best| best.min(cost)));
                }
                continue;
            }
            Some(trace) => trace.threads.iter().map(|thread| thread.id.clone()).collect(),
            None => (0..program.threads.len() as u32)
                .map(|ix| if ix == 0 { ThreadId::main() } else { ThreadId::main().child(ix) })
                .collect(),
        };
        open.extend(known.into_iter().map(|thread| {
            let mut picks = picks.clone();
            picks.push(thread);
            picks
        }));
    }
    best
}

/// Improves a trace until nothing better is found.
fn minimum(program: &Program, trace: &Trace) -> Option<Trace> {
    let mut best = trace.clone();
    loop {
        let limits = ProofLimits { executions: 20_000, in_a_row: 100, ..ProofLimits::default() };
        match prove(&best, &mut InMemory::new(program), &limits, &mut |_, _| {}).verdict {
            ProofVerdict::Better(better) => {
                assert!(Cost::of(&better.events) < Cost::of(&best.events));
                assert_eq!(better.signature(), trace.signature());
                best = *better;
            }
            ProofVerdict::Minimal(proof) => {
                assert_eq!(check(&proof, &best, &mut InMemory::new(program)), Ok(()));
                return Some(best);
            }
            ProofVerdict::Unfinished => return None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn proved_minimum_is_the_true_minimum(
        program in programs::random(),
        seed in any::<u32>(),
    ) {
        let seed = u64::from(seed);
        let start = failing(&program, seed..seed + 10);
        prop_assume!(start.as_ref().is_some_and(|start| start.events.len() < 16));
        let Some(start) = start else { return Ok(()) };
        let truth = least(&program, &start.signature(), 10_000);
        prop_assume!(truth.is_some());
        let found = minimum(&program, &start).expect("a small program is searched to the end");
        prop_assert_eq!(Some(Cost::of(&found.events)), truth);
    }
}

#[test]
fn paper_example_is_proved_minimal() {
    let program = programs::figure_1();
    let start = failing(&program, 0..1000).expect("a failing run");
    let found =
        combined::simplify(&start, &mut InMemory::new(&program), &SimplifyOptions::default(), &mut |_| {});
    let search = prove(&found.trace, &mut InMemory::new(&program), &ProofLimits::default(), &mut |_, _| {});
    let ProofVerdict::Minimal(proof) = search.verdict else { panic!("{:?}", search.verdict) };
    assert_eq!(proof.cost.switches, 2);
    assert_eq!(search.switches_ruled_out, Some(1));
    assert_eq!(check(&proof, &found.trace, &mut InMemory::new(&program)), Ok(()));
    let forged = unsnarl_simplify::prove::Proof { states: proof.states + 1, ..proof.clone() };
    assert!(matches!(
        check(&forged, &found.trace, &mut InMemory::new(&program)),
        Err(Mismatch::OtherStates { .. })
    ));
    assert_eq!(check(&proof, &start, &mut InMemory::new(&program)), Err(Mismatch::OtherTrace));
}

#[test]
fn non_minimal_trace_yields_a_better_one() {
    let program = programs::figure_1();
    let start = failing(&program, 0..1000).expect("a failing run");
    assert!(Cost::of(&start.events).switches > 2);
    let found = minimum(&program, &start).expect("a small program");
    assert_eq!(Cost::of(&found.events).switches, 2);
}

#[test]
fn timed_lock_that_is_held_is_not_known_to_wait() {
    let holder = vec![Ins::Add(0, 1), Ins::Lock(0), Ins::Add(0, 1), Ins::Unlock(0), Ins::Add(0, 1)];
    // A thread that got the lock goes on behind the failure.
    let impatient =
        vec![Ins::TimedLock(0), Ins::Unless(1, 4), Ins::Add(1, 1), Ins::Fail("late"), Ins::Unlock(0)];
    let program = Program::bare(vec![holder, impatient]);
    let needs_more = |trace: &Trace| trace.outcome.is_failure() && Cost::of(&trace.events).switches > 1;
    let start = (0..1000).map(|seed| toy::record(&program, seed)).find(needs_more).expect("a failing run");
    let found = minimum(&program, &start).expect("a small program");
    assert_eq!(Some(Cost::of(&found.events)), least(&program, &start.signature(), 10_000));
    assert_eq!(Cost::of(&found.events).switches, 1, "the lock times out while it is held");
}

#[test]
fn interrupted_proof_reports_its_progress() {
    let program = programs::figure_1();
    let start = failing(&program, 0..1000).expect("a failing run");
    let found =
        combined::simplify(&start, &mut InMemory::new(&program), &SimplifyOptions::default(), &mut |_| {});
    let whole = prove(&found.trace, &mut InMemory::new(&program), &ProofLimits::default(), &mut |_, _| {});
    let mut last = None;
    for executions in 0..whole.executions {
        let limits = ProofLimits { executions, ..ProofLimits::default() };
        let search = prove(&found.trace, &mut InMemory::new(&program), &limits, &mut |_, _| {});
        assert!(matches!(search.verdict, ProofVerdict::Unfinished));
        assert!(search.executions <= executions && search.switches_ruled_out >= last);
        last = search.switches_ruled_out;
    }
    assert!(last.is_some());
}
