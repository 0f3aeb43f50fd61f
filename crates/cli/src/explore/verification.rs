//! A failure counts only if its schedule makes it happen again.

use crate::{output, replay::replay};
use std::time::{Duration, Instant};
use unsnarl_exec::Settings;
use unsnarl_model::{Signature, Trace};
use unsnarl_report::{ProgramNames, divergence_text};
use unsnarl_symbols::Symbols;

/// The remark on a command that was tried and showed the same failure.
pub(crate) const SAME_FAILURE: &str = "checked: fails the same way";
/// The remark on a command that was tried and did not show the failure.
pub(crate) const NOT_REPRODUCED: &str =
    "checked: it does NOT reproduce; the program depends on something outside unsnarl's control";

/// The number of replays of which one must show the failure.
const REPLAYS: u32 = 2;
/// The number of occurrences of a failure that are checked before it is no longer.
const OCCURRENCES: u64 = 8;
/// The time for a check after the time of the search.
const GRACE: Duration = Duration::from_secs(10);

/// Result of a check.
pub(super) enum Verification {
    /// It happened again, or that could not be checked; the remark says so.
    Holds(String),
    /// It did not, for this reason.
    NotReproduced(String),
}

/// Replays the trace.
pub(super) fn verify(trace: &Trace, settings: Settings) -> Verification {
    let until = settings.until.map(|until| until.max(Instant::now() + GRACE));
    let settings = Settings { until, ..settings };
    let mut reason = String::new();
    for _ in 0..REPLAYS {
        match replay(trace, &trace.replay_plan(), settings.clone()) {
            Ok(again) if again.reproduced && again.identical() => {
                return Verification::Holds("checked: identical".into());
            }
            Ok(again) if again.reproduced => return Verification::Holds(SAME_FAILURE.into()),
            Ok(again) => {
                reason = match &again.divergence {
                    Some(divergence) => {
                        let mut symbols = Symbols::new();
                        let mut names = ProgramNames::new(&trace.modules, &mut symbols);
                        divergence_text(divergence, trace, &again.trace, &mut names)
                    }
                    None => format!("its replay ended differently:\n{}", output::outcome(&again.trace)),
                };
            }
            Err(error) => return Verification::Holds(format!("could not be checked: {error:#}")),
        }
    }
    Verification::NotReproduced(reason)
}

/// A failure that happened, but not again.
pub(crate) struct UnreproducedFailure {
    signature: Signature,
    /// The first trace with it.
    pub(crate) trace: Trace,
    pub(crate) times: u64,
    /// The number of the run with it, from 1.
    pub(crate) run: u64,
    pub(crate) reason: String,
}

/// Failures that did not happen again, in order of first occurrence.
#[derive(Default)]
pub(crate) struct UnreproducedFailures(pub(crate) Vec<UnreproducedFailure>);

impl UnreproducedFailures {
    /// Returns whether this failure did not happen again so often that it is not checked any more.
    pub(super) fn is_hopeless(&self, signature: &Signature) -> bool {
        self.0.iter().any(|known| known.signature == *signature && known.times >= OCCURRENCES)
    }

    pub(super) fn add(&mut self, trace: Trace, run: u64, reason: String) {
        let signature = trace.signature();
        match self.0.iter_mut().find(|known| known.signature == signature) {
            Some(known) => known.times += 1,
            None => self.0.push(UnreproducedFailure { signature, trace, times: 1, run, reason }),
        }
    }

    /// Returns the number of runs with such failures.
    pub(crate) fn runs(&self) -> u64 {
        self.0.iter().map(|failure| failure.times).sum()
    }
}

impl UnreproducedFailure {
    /// Describes it, and why it does not count.
    pub(crate) fn text(&self) -> String {
        let times = match self.times {
            1 => "seen once, not reproduced".to_owned(),
            times => format!("seen {times} times, never reproduced"),
        };
        format!(
            "\n{times} (run {}), so it does not count:\n{}\
             {}",
            self.run,
            indented(&output::outcome(&self.trace)),
            indented(&format!("replayed at once: {}", self.reason))
        )
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
