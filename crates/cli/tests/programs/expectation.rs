//! The `.expect` file beside a program; its keys are described in `programs/README.md`.

use std::{collections::BTreeMap, path::Path};
use unsnarl_model::Timeouts;

/// The schedules that give the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedules {
    Every,
    /// So many that a test meets one.
    Some,
    /// So few that a test may meet none; all others end normally.
    Rare,
}

#[derive(Debug)]
pub(crate) struct Expectation {
    pub(crate) outcome: String,
    /// The program has no bug.
    pub(crate) correct: bool,
    pub(crate) schedules: Schedules,
    pub(crate) message: Option<String>,
    /// The program fails at the line marked `/* FAIL */`.
    pub(crate) site: bool,
    pub(crate) stdout: Option<String>,
    pub(crate) args: Vec<String>,
    pub(crate) stdin: String,
    pub(crate) misuse: Vec<String>,
    pub(crate) instrument: bool,
    /// The number of random schedules, for programs with very long runs.
    pub(crate) seeds: Option<u64>,
    /// The search starts at the program's checkpoint.
    pub(crate) from_checkpoint: bool,
    pub(crate) flags: Vec<String>,
    pub(crate) timeouts: Timeouts,
}

impl Expectation {
    /// Returns the value of `--timeouts`.
    pub(crate) const fn timeouts_name(&self) -> &'static str {
        match self.timeouts {
            Timeouts::Eager => "eager",
            Timeouts::Fair => "fair",
            Timeouts::Late => "late",
        }
    }

    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut keys: BTreeMap<&str, &str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| {
                let (key, value) =
                    line.split_once('=').unwrap_or_else(|| panic!("{}: `{line}`", path.display()));
                (key.trim(), value.trim_start())
            })
            .collect();
        let mut take = |key: &str| keys.remove(key).map(str::to_owned);
        let unescaped = |text: String| text.replace("\\n", "\n");
        let words = |text: Option<String>| -> Vec<String> {
            text.unwrap_or_default().split([' ', ',']).filter(|w| !w.is_empty()).map(str::to_owned).collect()
        };
        let correct = take("correct").expect("`correct` is always there") == "true";
        let schedules = match (correct, take("schedules").as_deref()) {
            (true, None) | (false, Some("every")) => Schedules::Every,
            (false, None | Some("some")) => Schedules::Some,
            (false, Some("rare")) => Schedules::Rare,
            (_, schedules) => panic!("{}: {schedules:?} schedules, if correct = {correct}", path.display()),
        };
        let primitives = words(take("primitives"));
        take("native");
        let timeouts = match take("timeouts").as_deref() {
            None => Timeouts::Fair,
            Some("eager") => Timeouts::Eager,
            other => panic!("{}: time-outs {other:?}", path.display()),
        };
        let expectation = Self {
            outcome: take("outcome").expect("`outcome` is always there"),
            correct,
            schedules,
            message: take("message"),
            site: take("site").is_some(),
            stdout: take("stdout").map(unescaped),
            args: words(take("args")),
            stdin: unescaped(take("stdin").unwrap_or_default()),
            misuse: words(take("misuse")),
            instrument: take("instrument").expect("`instrument` is always there") == "yes",
            seeds: take("seeds").map(|seeds| seeds.parse().expect("`seeds` is a number")),
            from_checkpoint: primitives.iter().any(|primitive| primitive == "hint-checkpoint"),
            flags: words(take("flags")),
            timeouts,
        };
        assert!(keys.is_empty(), "{}: unknown keys {keys:?}", path.display());
        expectation
    }
}
