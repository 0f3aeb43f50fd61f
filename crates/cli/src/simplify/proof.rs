//! Proof files, and `unsnarl verify`.

use super::program::{ProgramPool, RunOptions, StopReason};
use crate::{
    explore::{self, predicate::Checks},
    output,
    pack::reproduces,
    replay::check_builds,
    traces,
    verdict::{UnusableError, Verdict},
};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};
use unsnarl_model::{Segment, ThreadIx, Trace, stable_hash};
use unsnarl_simplify::{
    Cost,
    prove::{Mismatch, Proof, check},
};

/// Returns the path of the proof beside a trace.
pub(crate) fn proof_path(trace: &Path) -> PathBuf {
    trace.with_extension("proof")
}

/// Writes a proof and returns its path.
pub(super) fn save(proof: &Proof, trace: &Path) -> Result<PathBuf> {
    let path = proof_path(trace);
    let schedule: Vec<(u16, u32)> = proof.schedule.iter().map(|s| (s.thread.0, s.points)).collect();
    let value = json!({
        "unsnarl_proof": 1,
        "says": "no schedule fails in this way with fewer context switches, or with as many and fewer preemptions",
        "trace": trace.file_name().map(|name| name.to_string_lossy()),
        "failure": format!("{:016x}", stable_hash(format!("{:?}", proof.signature).bytes())),
        "context_switches": proof.cost.switches,
        "preemptions": proof.cost.preemptions,
        "schedule": schedule,
        "points_in_a_row": proof.in_a_row,
        "idle_rounds": proof.rounds,
        "executions": proof.executions,
        "states": proof.states,
        "digest": format!("{:016x}", proof.digest),
    });
    output::write(&path, format!("{value:#}\n").as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Reads the proof of a trace; `None` if it is for another failure.
fn load(path: &Path, trace: &Trace) -> Result<Option<Proof>> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("no proof {} (`unsnarl simplify --prove` makes one)", path.display()))?;
    let wrong = || {
        anyhow!(UnusableError(format!(
            "{} is not a proof; `unsnarl simplify --prove` makes one",
            path.display()
        )))
    };
    let value: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
    let number = |name: &str| value[name].as_u64().ok_or_else(wrong);
    let hex = |name: &str| {
        value[name].as_str().and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or_else(wrong)
    };
    if number("unsnarl_proof")? != 1 {
        bail!(UnusableError(format!(
            "{} was written by another version of unsnarl: prove it again",
            path.display()
        )));
    }
    let segment = |value: &Value| {
        let part = |at: usize| value[at].as_u64();
        let (thread, points) = (u16::try_from(part(0)?).ok()?, u32::try_from(part(1)?).ok()?);
        Some(Segment { thread: ThreadIx(thread), points })
    };
    let schedule =
        value["schedule"].as_array().and_then(|all| all.iter().map(segment).collect::<Option<_>>());
    let figure = |name: &str| number(name).and_then(|number| u32::try_from(number).map_err(|_| wrong()));
    let proof = Proof {
        signature: trace.signature(),
        cost: Cost { switches: number("context_switches")?, preemptions: number("preemptions")? },
        schedule: schedule.ok_or_else(wrong)?,
        in_a_row: figure("points_in_a_row")?,
        rounds: figure("idle_rounds")?,
        executions: number("executions")?,
        states: number("states")?,
        digest: hex("digest")?,
    };
    let is_of_trace = hex("failure")? == stable_hash(format!("{:?}", proof.signature).bytes());
    Ok(is_of_trace.then_some(proof))
}

/// Check the proof of a simplified trace by repeating the search
///
/// For a pack: check that it is complete and replays here, and check its proof, if there is one.
#[derive(clap::Args)]
pub(crate) struct Verify {
    /// The trace or the pack: a path, or `latest`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// The proof (default: the file beside the trace that ends in .proof)
    #[arg(long, value_name = "FILE")]
    proof: Option<PathBuf>,
    #[command(flatten)]
    checks: Checks,
    /// Number of parallel runs
    #[arg(short, long, value_name = "N", default_value_t = explore::default_jobs())]
    jobs: usize,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(crate) fn run(self) -> Result<Verdict> {
        let file = traces::find(&self.trace);
        if unsnarl_pack::is_pack(&file) {
            return self.pack(&file);
        }
        let trace = traces::load(&self.trace)?;
        // `latest` is a link: the proof is beside its target.
        let file = fs::canonicalize(&file).unwrap_or(file);
        let path = self.proof.clone().unwrap_or_else(|| proof_path(&file));
        self.check_proof(&trace, &path)
    }

    /// Checks that a pack is complete and replays here, then its proof.
    fn pack(self, file: &Path) -> Result<Verdict> {
        let unpacked = traces::unpack(file)?;
        let reproduced = reproduces(&unpacked.trace)?;
        let proof = self.proof.clone().or(unpacked.proof).filter(|_| reproduced);
        if self.json && proof.is_none() {
            output::json(&json!({
                "whole": true, "reproduced": reproduced, "own_libraries": unpacked.own_libraries, "holds": null,
            }));
        }
        if !self.json {
            let libraries =
                if unpacked.own_libraries { "from the pack" } else { "this machine has the same" };
            let replays = if reproduced { "it replays here" } else { "it does NOT replay here" };
            output::print(&format!("the pack is complete, and {replays} (libraries: {libraries})\n"));
        }
        match proof {
            _ if !reproduced => Ok(Verdict::NotReproduced),
            Some(proof) => self.check_proof(&unpacked.trace, &proof),
            None => Ok(Verdict::Fine),
        }
    }

    /// Checks the proof of a trace.
    fn check_proof(self, trace: &Trace, path: &Path) -> Result<Verdict> {
        let proof = load(path, trace)?;
        check_builds(trace)?;
        let interrupt = explore::interrupt()?;
        let options = RunOptions {
            jobs: self.jobs,
            until: None,
            executions: u64::MAX,
            snapshots: true,
            checks: self.checks,
            quiet: self.json,
        };
        let mut program = ProgramPool::of(trace, options, &interrupt)?;
        program.progress.set_message("searching again");
        let checked = match &proof {
            Some(proof) => check(proof, trace, &mut program),
            None => Err(Mismatch::OtherTrace),
        };
        program.progress.finish_and_clear();
        let failure_reason = match checked {
            Ok(()) => None,
            Err(Mismatch::Stopped(StopReason::Failed(error))) => return Err(error),
            Err(Mismatch::Stopped(StopReason::Interrupted)) => return Ok(Verdict::Interrupted),
            Err(mismatch) => Some(mismatch.to_string()),
        };
        if self.json {
            output::json(&json!({
                "holds": failure_reason.is_none(), "why": failure_reason, "proof": path,
                "context_switches": proof.as_ref().map(|c| c.cost.switches),
                "preemptions": proof.as_ref().map(|c| c.cost.preemptions),
                "executions": proof.as_ref().map(|c| c.executions),
                "states": proof.as_ref().map(|c| c.states),
            }));
        } else {
            let report = match (&failure_reason, &proof) {
                (None, Some(c)) => format!(
                    "the proof holds: {} context switches, {} preemptive, are the fewest within these points \
                     ({} states, {} runs, searched again)\n",
                    c.cost.switches, c.cost.preemptions, c.states, c.executions
                ),
                (Some(failure_reason), _) => format!("the proof does not hold: {failure_reason}\n"),
                (None, None) => String::new(),
            };
            output::print(&report);
        }
        Ok(if failure_reason.is_none() { Verdict::Fine } else { Verdict::NotReproduced })
    }
}
