//! Strategies for arbitrary consistent traces.

use std::sync::Arc;

use proptest::{collection::vec, option, prelude::*, sample::select};
use unsnarl_model::{
    Action, Backtrace, Conflict, ConflictKind, Context, Counterfactual, Event, Fidelity, Flags, Input, Limit,
    Misuse, Module, ModuleIx, Op, Order, Outcome, OutcomeKind, Output, Places, Plan, PlannedAction, Points,
    Policy, Prefix, Program, RunLimits, Segment, Side, Site, SiteIx, Span, Thread, ThreadId, ThreadIx,
    Timeouts, Trace, Wait, Warning,
};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-zä/]{0,9}".prop_map(String::from)]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..12)
}

fn op() -> impl Strategy<Value = Op> {
    select(Op::ALL)
}

fn site(modules: u16) -> impl Strategy<Value = Site> + Clone {
    (0..modules, any::<u64>()).prop_map(|(module, offset)| Site { module: ModuleIx(module), offset })
}

fn thread_ix(threads: u16) -> impl Strategy<Value = ThreadIx> + Clone {
    (0..threads).prop_map(ThreadIx)
}

fn thread_id() -> impl Strategy<Value = ThreadId> {
    vec(1..u32::MAX, 0..4).prop_map(ThreadId::from_path)
}

fn program() -> impl Strategy<Value = Program> {
    (text(), vec(bytes(), 0..4), vec(bytes(), 0..4), text(), bytes())
        .prop_map(|(path, args, env, cwd, stdin)| Program { path, args, env, cwd, stdin })
}

fn module() -> impl Strategy<Value = Module> {
    (text(), bytes(), any::<u64>(), any::<u64>()).prop_map(|(path, build_id, base, size)| Module {
        path,
        build_id,
        base,
        size,
    })
}

fn prefix() -> impl Strategy<Value = Prefix> {
    (vec(thread_id(), 1..4), vec(text(), 1..4), any::<bool>(), any::<bool>()).prop_flat_map(
        |(threads, modules, with_actions, exact)| {
            let segment = (thread_ix(threads.len() as u16), 0..5_u32)
                .prop_map(|(thread, points)| Segment { thread, points });
            let site = site(modules.len() as u16);
            vec(segment, 0..6).prop_flat_map(move |segments| {
                let points = if with_actions { segments.iter().map(|s| s.points as usize).sum() } else { 0 };
                let execute = (op(), site.clone()).prop_map(|(op, site)| Action { op, site }.into());
                let action = prop_oneof![9 => execute, 1 => Just(PlannedAction::RunUntilBlocked)];
                let (threads, modules) = (threads.clone(), modules.clone());
                let fidelity = if exact { Fidelity::Exact } else { Fidelity::Relaxed };
                vec(action, points).prop_map(move |actions| Prefix {
                    threads: threads.clone(),
                    modules: modules.clone(),
                    segments: segments.clone(),
                    actions,
                    fidelity,
                })
            })
        },
    )
}

fn plan() -> impl Strategy<Value = Plan> {
    (
        prefix(),
        policy(),
        select(&[Points::Sync, Points::All, Points::Places][..]),
        places(),
        any::<(u32, bool, bool, bool)>(),
        any::<(u64, bool, u64, u64)>(),
        any::<(u64, u32, u64)>(),
    )
        .prop_map(|(prefix, tail, points, places, plan_fields, figures, limits)| {
            let (one_in, conflicts, choices, from_checkpoint) = plan_fields;
            let (seed, spurious, entropy, epoch) = figures;
            let (events, spins, millis) = limits;
            let limits = RunLimits { events, spins, millis };
            let input = || Input {
                thread: "0.2".parse().expect("a thread"),
                op: Op::FdRead,
                timed_out: spurious,
                blocked: choices,
                requested: seed,
                result: -5,
                bytes: b"hello".to_vec(),
            };
            let inputs = conflicts.then(|| Arc::new(vec![input(), input()]));
            Plan {
                prefix,
                tail,
                seed,
                points,
                places,
                one_in,
                conflicts,
                choices,
                from_checkpoint,
                spurious,
                timeouts: [Timeouts::Eager, Timeouts::Fair, Timeouts::Late][spins as usize % 3],
                continuations: conflicts != choices,
                entropy,
                epoch,
                limits,
                inputs,
            }
        })
}

fn policy() -> impl Strategy<Value = Policy> {
    let pct = Policy::Pct { depth: 3, steps: 240 };
    let race = Policy::Race { first: 0, second: 1 };
    select([Policy::Stop, Policy::Fair, Policy::Random, pct, Policy::Pos, race].to_vec())
}

/// Has at least the two places that a policy may refer to.
fn places() -> impl Strategy<Value = Places> {
    let span = any::<(u64, u64)>().prop_map(|(start, end)| Span { module: ModuleIx(0), start, end });
    (text(), vec(span, 2..5)).prop_map(|(module, spans)| Places { modules: [module].to_vec(), spans })
}

fn race(threads: u16, modules: u16) -> impl Strategy<Value = Conflict> {
    let side = move || {
        (thread_ix(threads), op(), site(modules)).prop_map(|(thread, op, site)| Side { thread, op, site })
    };
    (any::<u64>(), side(), side()).prop_map(|(addr, first, second)| Conflict {
        kind: ConflictKind::Race,
        addr,
        sides: [first, second],
    })
}

fn kind() -> impl Strategy<Value = OutcomeKind> {
    prop_oneof![
        any::<i32>().prop_map(OutcomeKind::Exit),
        any::<i32>().prop_map(OutcomeKind::Signal),
        select(Limit::ALL).prop_map(OutcomeKind::Undecided),
        select(
            &[
                OutcomeKind::Deadlock,
                OutcomeKind::Assertion,
                OutcomeKind::Abort,
                OutcomeKind::Exception,
                OutcomeKind::Panic,
                OutcomeKind::Livelock,
                OutcomeKind::Race,
                OutcomeKind::Misuse,
                OutcomeKind::Check
            ][..]
        ),
    ]
}

fn outcome(threads: u16, modules: u16) -> impl Strategy<Value = Outcome> {
    let thread = thread_ix(threads);
    let site = site(modules);
    let backtrace =
        (thread.clone(), vec(site.clone(), 0..4)).prop_map(|(thread, frames)| Backtrace { thread, frames });
    let wait = (thread.clone(), op(), any::<u64>(), site.clone(), vec(thread.clone(), 0..3))
        .prop_map(|(thread, op, addr, site, holders)| Wait { thread, op, addr, site, holders });
    (kind(), option::of(thread), option::of(site), text(), vec(backtrace, 0..3), vec(wait, 0..3)).prop_map(
        |(kind, thread, site, message, backtraces, waits)| Outcome {
            kind,
            thread,
            site,
            message,
            backtraces,
            waits,
        },
    )
}

fn warning(threads: u16, modules: u16) -> impl Strategy<Value = Warning> {
    (select(Misuse::ALL), thread_ix(threads), site(modules), any::<u64>(), any::<u64>(), text()).prop_map(
        |(misuse, thread, site, addr, at, detail)| Warning { misuse, thread, site, addr, at, detail },
    )
}

fn need() -> impl Strategy<Value = Counterfactual> {
    (any::<u64>(), kind(), text()).prop_map(|(event, outcome_without, message)| Counterfactual {
        event,
        outcome_without,
        message,
    })
}

fn event(threads: u16, sites: u32) -> impl Strategy<Value = Event> {
    (
        (thread_ix(threads), op(), any::<u16>(), select(Order::ALL), 0..sites),
        prop_oneof![4 => Just(0), 1 => any::<u32>()],
        prop_oneof![0..100_u64, any::<u64>()],
        prop_oneof![0..100_u64, any::<u64>()],
        prop_oneof![0..100_u64, any::<u64>()],
    )
        .prop_map(|((thread, op, flags, order, site), context, size, addr, value)| Event {
            thread,
            op,
            flags: Flags(flags),
            order,
            site: SiteIx(site),
            context,
            size,
            addr,
            value,
        })
}

/// Traces of up to a hundred events.
pub(crate) fn trace() -> impl Strategy<Value = Trace> {
    (1..4_u16, 1..5_u16).prop_flat_map(|(modules, threads)| {
        let thread =
            (thread_id(), text(), site(modules)).prop_map(|(id, name, start)| Thread { id, name, start });
        let sites = vec(site(modules), 1..9);
        (
            program(),
            vec(module(), modules as usize),
            plan(),
            vec(thread, threads as usize),
            sites.prop_flat_map(move |sites| {
                vec(event(threads, sites.len() as u32), 0..100)
                    .prop_map(move |events| (sites.clone(), events))
            }),
            outcome(threads, modules),
            (
                (vec(warning(threads, modules), 0..3), vec(text(), 0..3), any::<bool>()),
                vec(race(threads, modules), 0..3),
                vec(need(), 0..3),
                vec((any::<u64>(), text()), 0..3),
            ),
            (bytes(), bytes()).prop_map(|(stdout, stderr)| Output { stdout, stderr }),
        )
            .prop_map(
                |(
                    program,
                    modules,
                    plan,
                    mut threads,
                    (sites, events),
                    outcome,
                    ((warnings, program_warnings, native), races, counterfactuals, names),
                    output,
                )| {
                    threads[0].id = ThreadId::main();
                    Trace {
                        program,
                        modules,
                        plan,
                        threads,
                        callers: if events.len() % 2 == 0 {
                            sites.iter().rev().copied().collect()
                        } else {
                            Vec::new()
                        },
                        contexts: (sites.iter().zip(0..))
                            .map(|(&site, caller)| Context { site, caller })
                            .collect(),
                        sites,
                        events,
                        outcome,
                        warnings,
                        program_warnings,
                        native,
                        races,
                        counterfactuals,
                        names,
                        output,
                    }
                },
            )
    })
}
