//! Options that several commands share.

use crate::sites;
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::{ffi::OsString, path::PathBuf, str::FromStr, time::Duration};
use unsnarl_exec::{FileChanges, Settings};
use unsnarl_model::{Places, Plan, Points, Policy, Program, RunLimits, Timeouts};
use unsnarl_search::entropy_of;

/// The program to run.
#[derive(Args)]
pub(crate) struct Target {
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROG")]
    pub(crate) program: Vec<OsString>,
    /// Standard input of the program (default: unsnarl's own, unless it is a terminal)
    #[arg(long, value_name = "FILE")]
    pub(crate) stdin: Option<PathBuf>,
}

/// Control a program that PROG starts.
#[derive(Args)]
pub(crate) struct Follow {
    /// PROG is a script or another launcher: control the program of this name that it starts
    ///
    /// Without a name, the first program that can create threads. The launcher runs once, until it starts that program,
    /// and is terminated at the end of the command. The trace is of the program itself and replays without the launcher
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    pub(crate) follow: Option<Option<String>>,
}

/// Options of the program's runs.
#[derive(Clone, Args)]
pub(crate) struct RunArgs {
    /// Memory accesses that are schedule points, in addition to synchronisation and atomics
    ///
    /// races: accesses that were seen to race in earlier runs (the default of explore); all: every instrumented access while
    /// several threads are alive (the default of record); sync: none; or functions and files by name, separated by
    /// commas: `push,pop,queue.c`, `queue.c:42`
    #[arg(long, value_name = "SET")]
    points: Option<PointSet>,
    /// Make only one in N of these accesses a schedule point
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    one_in: u32,
    /// Seed of the program's own random numbers, which are then the same in all runs
    ///
    /// By default they derive from the seed of each run, so that the runs of a search differ in them
    #[arg(long, value_name = "S")]
    entropy: Option<u64>,
    /// Let waits on condition variables wake up spuriously, as POSIX allows
    #[arg(long)]
    spurious: bool,
    /// When sleeps, timed waits and timers may end although other threads can go on
    #[arg(long, value_enum, value_name = "WHEN", default_value = "fair")]
    timeouts: TimeoutRule,
    /// Stop a run after this much real time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    timeout: Duration,
    /// Stop a run after this many events
    #[arg(long, value_name = "N", default_value_t = RunLimits::default().events)]
    max_events: u64,
    /// Report a livelock after this many operations in a row that change nothing
    #[arg(long, value_name = "N", default_value_t = RunLimits::default().spins)]
    max_spins: u32,
    /// Stop a run after this many MiB of output
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    max_output: u64,
    /// Stop a run at this many MiB of private memory
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    max_memory: u64,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
    /// Let runs find the files as earlier runs left them, and keep what the last run left
    ///
    /// Without it, the runs of a search all find the files as they were at its beginning, and leave no changes
    #[arg(long)]
    share_files: bool,
    /// Also treat this as a failure
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) fail_on: Vec<FailOn>,
    /// Where to save the trace
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// Backend of the program's threads.
#[derive(Clone, Copy, Args)]
pub(crate) struct ThreadArgs {
    /// Run the program's threads on fibers or on kernel threads; schedule and trace are the same
    #[arg(long, value_enum, value_name = "KIND", default_value = "fibers")]
    threads: ThreadKind,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ThreadKind {
    /// One kernel thread for all of them: fast
    Fibers,
    /// One kernel thread each, of which one runs at a time: slow, but debuggers understand it
    Kernel,
}

impl ThreadArgs {
    pub(crate) fn kind(self) -> unsnarl_exec::ThreadBackend {
        match self.threads {
            ThreadKind::Fibers => unsnarl_exec::ThreadBackend::Fibers,
            ThreadKind::Kernel => unsnarl_exec::ThreadBackend::Kernel,
        }
    }
}

/// Memory accesses that are schedule points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PointSet {
    /// None.
    Sync,
    /// Every instrumented access while several threads are alive.
    All,
    /// Accesses that race.
    #[default]
    Races,
    /// Accesses in functions and files of these names.
    Named(Vec<String>),
}

impl FromStr for PointSet {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        Ok(match text {
            "sync" => Self::Sync,
            "all" => Self::All,
            "races" => Self::Races,
            "" => return Err("expected races, all, sync, or names of functions and files".into()),
            names => Self::Named(names.split(',').map(|name| name.trim().to_owned()).collect()),
        })
    }
}

impl PointSet {
    /// Returns the set as the command line takes it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Sync => "sync".into(),
            Self::All => "all".into(),
            Self::Races => "races".into(),
            Self::Named(names) => names.join(","),
        }
    }
}

/// The rule by which time-outs expire while other threads can go on.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeoutRule {
    /// At any moment, whatever their length
    Eager,
    /// Short ones, but only now and then; those of about a second and more if the other threads run on and on
    Fair,
    /// Never: only when no other thread can go on
    Late,
}

impl From<TimeoutRule> for Timeouts {
    fn from(rule: TimeoutRule) -> Self {
        match rule {
            TimeoutRule::Eager => Self::Eager,
            TimeoutRule::Fair => Self::Fair,
            TimeoutRule::Late => Self::Late,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Misuse of locks, condition variables or threads
    Misuse,
    /// A data race: two conflicting accesses without synchronisation
    Race,
}

impl RunArgs {
    /// Returns the point set, or the command's default.
    pub(crate) fn points(&self, default: PointSet) -> PointSet {
        self.points.clone().unwrap_or(default)
    }

    /// Returns whether the program's random numbers are the same in all runs.
    pub(crate) fn pins_random_numbers(&self) -> bool {
        self.entropy.is_some()
    }

    /// Returns how many of the accesses that could be schedule points there are for one that is.
    pub(crate) fn one_in(&self) -> u32 {
        self.one_in
    }

    /// Returns the same options with this point set.
    pub(crate) fn with_points(self, points: PointSet) -> Self {
        Self { points: Some(points), ..self }
    }

    /// Returns the plan of these options for a program.
    pub(crate) fn plan(&self, points: &PointSet, program: &Program, tail: Policy, seed: u64) -> Result<Plan> {
        let (points, places) = match points {
            PointSet::Sync => (Points::Sync, Places::default()),
            PointSet::All => (Points::All, Places::default()),
            PointSet::Races => (Points::Places, Places::default()),
            PointSet::Named(names) => (Points::Places, sites::resolve(program, names)?),
        };
        // A run without a seed is the same every time.
        let drawn = if tail == Policy::Fair { Plan::default().entropy } else { entropy_of(seed) };
        Ok(Plan {
            tail,
            seed,
            entropy: self.entropy.unwrap_or(drawn),
            points,
            places,
            one_in: self.one_in,
            conflicts: self.fail_on.contains(&FailOn::Race),
            spurious: self.spurious,
            timeouts: self.timeouts.into(),
            limits: RunLimits {
                events: self.max_events,
                spins: self.max_spins,
                millis: self.timeout.as_millis().try_into().unwrap_or(u64::MAX),
            },
            ..Plan::default()
        })
    }

    /// Returns the executor settings of these options.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            output_limit: Some(self.max_output.saturating_mul(1 << 20)),
            memory_limit: Some(self.max_memory.saturating_mul(1 << 20)),
            threads: self.threads.kind(),
            files: if self.share_files { FileChanges::Keep } else { FileChanges::Undo },
            ..Settings::default()
        }
    }
}

/// Parses a duration like `90s`, `500ms`, `5m`; a bare number is in seconds.
pub(crate) fn duration(text: &str) -> std::result::Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("expected a time like 90s, 500ms, 5m or 2h".into()),
    };
    let number: f64 = number.parse().map_err(|_| "expected a time like 90s, 500ms, 5m or 2h".to_owned())?;
    Duration::try_from_secs_f64(number * factor).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_accept_units() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert!(duration("soon").is_err());
    }
}
