//! The checks made for each program.

use crate::{
    enabled,
    expectation::{Expectation, Schedules},
    swaps,
};
use std::{collections::BTreeSet, fs, path::Path, process::Command};
use unsnarl_exec::{Executor, Settings};
use unsnarl_model::{
    Fidelity, Limit, OutcomeKind, Places, Plan, Points, Policy, Prefix, Program, RunLimits, Segment, Site,
    Trace, signal_name,
};
use unsnarl_search::{Portfolio, RunSteps, RunSummary, Search};
use unsnarl_symbols::{Frame, Symbols};

const SEEDS: u64 = 50;
/// Number of schedules within which a bug must occur.
const PATIENCE: u64 = 1000;
/// Longer traces, like those of a livelock, take too long for all checks.
const LONG: usize = 20_000;

pub(crate) fn check(program: &Path, expected: &Expectation) -> Result<(), String> {
    let undecided = expected.outcome == "undecided";
    // A run that ends by the time limit is slow, so few are made.
    let seeds = expected.seeds.unwrap_or(if undecided { 2 } else { SEEDS });
    let limits = RunLimits { millis: if undecided { 3000 } else { 60_000 }, ..RunLimits::default() };
    let from_checkpoint = expected.from_checkpoint;
    // A livelock has a million events, too many for race detection.
    let conflicts = expected.outcome != "livelock";
    let timeouts = expected.timeouts;
    let base = Plan { limits, timeouts, ..Plan::default() };
    let plan = |seed| Plan { tail: Policy::Random, seed, conflicts, from_checkpoint, ..base.clone() };
    let serving = Settings { serve: true, ..Settings::default() };
    let mut executor = executor(program, expected, serving)?;
    let mut fresh = self::executor(program, expected, Settings::default())?;

    let fair = run(&mut executor, &base)?;
    if expected.schedules == Schedules::Every {
        matches(&fair, expected).map_err(|reason| format!("without preemptions: {reason}"))?;
    }
    let mut seen = matches(&fair, expected).is_ok();
    let mut last = String::new();
    let mut compared = enabled::Compared::default();
    for seed in 0..seeds {
        let plan = Plan { choices: true, ..plan(seed) };
        let ran = executor.run(&plan).map_err(|e| e.to_string())?;
        let choices = ran.choices();
        let trace = ran.trace();
        if !from_checkpoint && trace.events.len() < LONG {
            let answers = enabled::compare(&trace, &choices);
            compared.add(&answers.map_err(|reason| format!("seed {seed}: {reason}"))?);
        }
        if conflicts && trace.events.len() < LONG {
            same_races(&trace).map_err(|reason| format!("seed {seed}: {reason}"))?;
        }
        if expected.correct {
            no_race(&trace).map_err(|reason| format!("seed {seed}: {reason}"))?;
        }
        match matches(&trace, expected) {
            Ok(()) => seen = true,
            Err(reason) if expected.schedules == Schedules::Every => {
                return Err(format!("seed {seed}: {reason}"));
            }
            Err(reason) if !is_tolerable(&trace, expected.schedules) => {
                return Err(format!("seed {seed}: neither as expected nor well: {reason}"));
            }
            Err(reason) => last = reason,
        }
        // Every fourth replay runs in a fresh process: a fork of the loaded program must behave the same.
        let replayer = if seed % 4 == 0 { &mut fresh } else { &mut executor };
        let again = run(replayer, &trace.replay_plan())?;
        same(&trace, &again).map_err(|reason| format!("seed {seed} does not replay: {reason}"))?;
        if expected.instrument && !undecided && !from_checkpoint && seed < 4 && trace.events.len() < LONG {
            swaps::check(&mut executor, &trace).map_err(|reason| format!("seed {seed}: {reason}"))?;
        }
        if !undecided && seed < 2 {
            resumed(&mut executor, &trace).map_err(|reason| format!("seed {seed}, resumed: {reason}"))?;
        }
    }
    compared.check_unknown()?;
    let mut seed = seeds;
    let must_be_seen = expected.schedules != Schedules::Rare;
    while must_be_seen && !seen && seed < PATIENCE {
        let trace = run(&mut executor, &plan(seed))?;
        seen = matches(&trace, expected).is_ok();
        seed += 1;
    }
    if must_be_seen && !seen {
        return Err(format!("{PATIENCE} schedules and never {}: {last}", expected.outcome));
    }
    if !undecided && conflicts && expected.seeds.is_none() {
        searched(&mut executor, expected, limits)?;
    }
    from_the_outside(program, expected)
}

/// Checks that no schedule of a correct, instrumented program shows a race.
pub(crate) fn has_no_race(program: &Path, expected: &Expectation) -> Result<(), String> {
    const SEEDS: u64 = 40;
    let limits = RunLimits { millis: 60_000, ..RunLimits::default() };
    let mut executor = executor(program, expected, Settings { serve: true, ..Settings::default() })?;
    for seed in 0..SEEDS {
        let timeouts = expected.timeouts;
        let plan = Plan { tail: Policy::Random, seed, limits, conflicts: true, timeouts, ..Plan::default() };
        let trace = run(&mut executor, &plan)?;
        no_race(&trace).map_err(|reason| format!("instrumented, seed {seed}: {reason}"))?;
    }
    searched(&mut executor, expected, limits).map_err(|reason| format!("instrumented, {reason}"))
}

/// Checks that runs that resume from a snapshot equal those from the start, for the same schedule and for others.
fn resumed(executor: &mut Executor, trace: &Trace) -> Result<(), String> {
    let points = trace.events.len();
    if points > LONG {
        return Ok(());
    }
    let plan = trace.replay_plan();
    // Another schedule with the same first half.
    let half = Prefix { segments: first(&plan.prefix.segments, points / 2), ..plan.prefix.clone() };
    let half = Prefix { actions: half.actions[..points / 2].to_vec(), fidelity: Fidelity::Relaxed, ..half };
    let other = Plan { prefix: half, tail: Policy::Fair, ..plan.clone() };
    let expected = run(executor, &other)?;
    for snapshot_points in [points / 4, points / 2, points * 3 / 4, points.saturating_sub(1)] {
        // If a snapshot is not possible, there is a reason, and the run is made from the start.
        let _ = executor.take_snapshot(&plan, snapshot_points).map_err(|e| e.to_string())?;
        // Repeated, so that a rewound process makes the next run.
        let runs = [(&plan, trace), (&other, &expected)];
        for (plan, expected) in runs.into_iter().cycle().take(6) {
            let ran = run(executor, plan)?;
            same(expected, &ran)
                .map_err(|reason| format!("after {snapshot_points} of {points} points: {reason}"))?;
            if ran.races != expected.races {
                return Err(format!("after {snapshot_points} of {points} points: other races"));
            }
        }
    }
    Ok(())
}

/// Returns the first `points` points.
fn first(segments: &[Segment], mut points: usize) -> Vec<Segment> {
    let mut segments = segments.to_vec();
    segments.retain_mut(|segment| {
        segment.points = segment.points.min(points as u32);
        points -= segment.points as usize;
        segment.points > 0
    });
    segments
}

/// Searches with points learnt from races: the runs of every strategy have allowed outcomes, and replay.
fn searched(executor: &mut Executor, expected: &Expectation, limits: RunLimits) -> Result<(), String> {
    const RUNS: u64 = 24;
    let from_checkpoint = expected.from_checkpoint;
    let (points, timeouts) = (Points::Places, expected.timeouts);
    let plan = Plan { limits, conflicts: true, points, from_checkpoint, timeouts, ..Plan::default() };
    let mut search = Search::new(Box::new(Portfolio::new(&plan)), Places::default());
    for nth in 0..RUNS {
        let Some(plan) = search.plan() else { break };
        let ran = executor.run(&plan).map_err(|e| e.to_string())?;
        let (conflicts, modules) = ran.conflicts();
        let single_thread_points = ran.single_thread_points();
        let first_random = ran.first_random();
        let choices = ran.choices();
        let trace = ran.trace();
        let name = plan.tail.name();
        if expected.correct {
            matches(&trace, expected).map_err(|reason| format!("run {nth} by {name}: {reason}"))?;
            no_race(&trace).map_err(|reason| format!("run {nth} by {name}: {reason}"))?;
        }
        if matches(&trace, expected).is_err() && !is_tolerable(&trace, expected.schedules) {
            return Err(format!("run {nth} by {name}: {:?} {}", trace.outcome.kind, trace.outcome.message));
        }
        if trace.events.len() > LONG {
            break;
        }
        let steps = RunSteps::of(&trace, choices, true);
        let points = trace.events.len() as u64;
        let steps = plan.choices.then_some(&steps);
        search.learn(
            &plan,
            &RunSummary {
                points,
                single_thread_points,
                first_random,
                conflicts: &conflicts,
                modules: &modules,
                steps,
                ..RunSummary::default()
            },
        );
        let again = run(executor, &trace.replay_plan())?;
        same(&trace, &again).map_err(|reason| format!("run {nth} by {name} does not replay: {reason}"))?;
    }
    Ok(())
}

/// Checks that the races found during the run are those that its events show.
fn same_races(trace: &Trace) -> Result<(), String> {
    let pair = |mut sites: [Site; 2]| {
        sites.sort();
        sites
    };
    let inside: BTreeSet<_> = trace.races.iter().map(|race| pair(race.sides.map(|side| side.site))).collect();
    let site = |number: u64| trace.site(&trace.events[number as usize]);
    let outside: BTreeSet<_> =
        unsnarl_race::races(trace).iter().map(|race| pair([site(race.first), site(race.second)])).collect();
    if inside == outside {
        Ok(())
    } else {
        Err(format!("races inside {inside:?}, by the events {outside:?}"))
    }
}

/// Returns whether a buggy program may end like this: normally, by its bug, or by another symptom of it. A rare bug has
/// no other known symptom.
fn is_tolerable(trace: &Trace, schedules: Schedules) -> bool {
    match schedules {
        Schedules::Rare => trace.outcome.kind == OutcomeKind::Exit(0),
        Schedules::Every | Schedules::Some => trace.outcome.limit().is_none(),
    }
}

pub(crate) fn executor(
    program: &Path,
    expected: &Expectation,
    settings: Settings,
) -> Result<Executor, String> {
    let path = program.to_str().ok_or("a path in UTF-8")?.to_owned();
    let args = std::iter::once(&path).chain(&expected.args).map(|arg| arg.clone().into_bytes()).collect();
    let program = Program {
        args,
        env: vec![b"LANG=C".to_vec(), b"PATH=/usr/bin:/bin".to_vec()],
        cwd: "/".into(),
        stdin: expected.stdin.clone().into_bytes(),
        path,
    };
    Executor::new(program, settings).map_err(|e| e.to_string())
}

pub(crate) fn run(executor: &mut Executor, plan: &Plan) -> Result<Trace, String> {
    executor.run(plan).map(unsnarl_exec::Run::trace).map_err(|e| e.to_string())
}

fn matches(trace: &Trace, expected: &Expectation) -> Result<(), String> {
    let outcome = &trace.outcome;
    let report = match outcome.kind {
        OutcomeKind::Exit(status) => format!("exit {status}"),
        OutcomeKind::Signal(signal) => format!("signal {}", signal_name(signal)),
        kind => kind.name().to_owned(),
    };
    let stderr = String::from_utf8_lossy(&trace.output.stderr);
    if report != expected.outcome {
        return Err(format!(
            "{report} ({}) instead of {}; {}",
            outcome.message,
            expected.outcome,
            stderr.trim()
        ));
    }
    if let Some(message) = &expected.message
        && !outcome.message.contains(message.as_str())
    {
        return Err(format!("the message is `{}`, not `{message}`", outcome.message));
    }
    if let Some(stdout) = &expected.stdout
        && trace.output.stdout != stdout.as_bytes()
    {
        return Err(format!("printed `{}`, not `{stdout}`", String::from_utf8_lossy(&trace.output.stdout)));
    }
    if expected.site {
        fails_at_mark(trace)?;
    }
    let warned: Vec<String> = trace.warnings.iter().map(|w| kebab(&format!("{:?}", w.misuse))).collect();
    match expected.misuse.iter().find(|expected_misuse| !warned.contains(expected_misuse)) {
        Some(expected_misuse) => Err(format!("no warning of {expected_misuse}, only {warned:?}")),
        None if expected.misuse.is_empty()
            && expected.schedules == Schedules::Every
            && expected.outcome == "exit 0"
            && !warned.is_empty() =>
        {
            Err(format!("a correct program with warnings {warned:?}"))
        }
        None => Ok(()),
    }
}

/// Checks that the failure is at the mark, which is in the program or in a header that several programs share.
fn fails_at_mark(trace: &Trace) -> Result<(), String> {
    let site = trace.outcome.site.ok_or("the outcome has no site")?;
    let frames = Symbols::new().lookup(&trace.modules, site);
    if frames.iter().any(is_marked) {
        return Ok(());
    }
    Err(format!("fails at {frames:?}, which is not marked by FAIL"))
}

fn is_marked(frame: &Frame) -> bool {
    let (Some(file), Some(line)) = (&frame.file, frame.line) else { return false };
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().nth(line as usize - 1).is_some_and(|line| line.contains("/* FAIL */"))
}

/// Checks that a correct program has no data race under this schedule.
fn no_race(trace: &Trace) -> Result<(), String> {
    let Some(race) = trace.races.first() else { return Ok(()) };
    let mut symbols = Symbols::new();
    let [first, second] = race.sides.map(|side| {
        let place = symbols.lookup(&trace.modules, side.site);
        format!("{} of {} in {place:?}", side.op.name(), trace.thread_id(side.thread))
    });
    Err(format!("a false race at {:x} between {first} and {second}", race.addr))
}

/// Converts `UnlockNotHeld` to `unlock-not-held`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(c.to_lowercase());
    }
    text
}

pub(crate) fn same(recorded: &Trace, replayed: &Trace) -> Result<(), String> {
    if let Some(divergence) = recorded.first_difference(replayed) {
        let at = divergence.point as usize;
        return Err(format!(
            "{divergence:?}: {:?} {:?}, outcome {:?} {}",
            recorded.events.get(at),
            replayed.events.get(at),
            replayed.outcome.kind,
            replayed.outcome.message
        ));
    }
    // A livelock would go on, so its replay ends with the plan.
    let is_cut_off =
        recorded.outcome.kind == OutcomeKind::Livelock && replayed.outcome.limit() == Some(Limit::Plan);
    if recorded.signature() != replayed.signature() && !is_cut_off {
        return Err(format!("{:?} became {:?}", recorded.signature(), replayed.signature()));
    }
    if recorded.output.stdout != replayed.output.stdout {
        return Err("the output differs".into());
    }
    if recorded.warnings != replayed.warnings {
        return Err(format!("warnings {:?} became {:?}", recorded.warnings, replayed.warnings));
    }
    Ok(())
}

/// Uses the command line: records here, and replays from another directory and environment.
fn from_the_outside(program: &Path, expected: &Expectation) -> Result<(), String> {
    let unsnarl = env!("CARGO_BIN_EXE_unsnarl");
    let file = program.with_extension("snarl");
    let stdin = program.with_extension("stdin");
    fs::write(&stdin, &expected.stdin).map_err(|e| e.to_string())?;
    let timeout = if expected.outcome == "undecided" { "3s" } else { "60s" };
    let record = Command::new(unsnarl)
        .args(["record", "--seed", "7", "--json", "--timeout", timeout])
        .args(["--timeouts", expected.timeouts_name(), "--stdin"])
        .arg(&stdin)
        .arg("-o")
        .arg(&file)
        .arg("--")
        .arg(program)
        .args(&expected.args)
        .current_dir(program.parent().unwrap_or(Path::new("/")))
        .output()
        .map_err(|e| e.to_string())?;
    if !matches!(record.status.code(), Some(0 | 100 | 104)) {
        return Err(format!("record: {}", String::from_utf8_lossy(&record.stderr)));
    }
    let replay = Command::new(unsnarl)
        .args(["replay", "--json"])
        .arg(&file)
        .current_dir("/")
        .env("SOMETHING_ELSE", "x".repeat(3000))
        .output()
        .map_err(|e| e.to_string())?;
    let report = String::from_utf8_lossy(&replay.stdout);
    // A recording that was stopped is no failure.
    let expected_status = record.status.code().map(|status| if status == 104 { 0 } else { status });
    if replay.status.code() != expected_status || !report.contains("\"identical\": true") {
        return Err(format!("replay from elsewhere: {report}{}", String::from_utf8_lossy(&replay.stderr)));
    }
    let show = Command::new(unsnarl).arg("show").arg(&file).output().map_err(|e| e.to_string())?;
    if !show.status.success() || show.stdout.is_empty() {
        return Err(format!("show: {}", String::from_utf8_lossy(&show.stderr)));
    }
    Ok(())
}
