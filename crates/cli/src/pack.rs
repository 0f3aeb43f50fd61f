//! `unsnarl pack`: packs a trace with everything its replay needs into one file.

use crate::{
    output,
    replay::{check_builds, replay},
    simplify::proof,
    traces,
    verdict::{UsageError, Verdict},
};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};
use unsnarl_exec::{Error, Settings};
use unsnarl_model::Trace;
use unsnarl_pack::{Pack, PackOptions, gather, is_pack};

/// Pack a trace with everything its replay needs into one file: the program, its libraries, inputs and sources
///
/// Every command that takes a TRACE also takes a pack. The environment is left out if the failure does not need it.
#[derive(clap::Args)]
pub(crate) struct PackCommand {
    /// The trace: a path, or `latest`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// Add a file or directory that the program reads, besides those that its arguments name
    #[arg(long, value_name = "PATH")]
    with: Vec<PathBuf>,
    /// Where to write the pack (default: the trace's name, ending in .snarl.tar.zst, in this directory)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

impl PackCommand {
    pub(crate) fn run(self) -> Result<Verdict> {
        let file = traces::find(&self.trace);
        if is_pack(&file) {
            return Err(UsageError(format!("{} is a pack already", file.display())).into());
        }
        let trace = traces::load(&self.trace)?;
        if trace.program.path.is_empty() {
            bail!(Error::NotThisBuild(
                "the trace was imported from another tool and has no program to pack".into()
            ));
        }
        check_builds(&trace)?;
        // `latest` is a link: use the name of its target.
        let file = fs::canonicalize(&file).unwrap_or(file);
        let path = self.output.clone().unwrap_or_else(|| {
            Path::new(file.file_stem().unwrap_or_default()).with_added_extension("snarl.tar.zst")
        });
        let Some((pack, bytes, bare)) = self.smallest(&trace, &file, &path)? else {
            let _ = fs::remove_file(&path);
            if self.json {
                output::json(&json!({ "pack": null, "reproduced": false }));
            } else {
                output::print(
                    "not packed: outside its directory the program does not reproduce the recorded outcome.\n\
                     Does it read a file? Name it: --with PATH\n",
                );
            }
            return Ok(Verdict::NotReproduced);
        };
        self.print_summary(&pack, &path, bytes, bare);
        Ok(Verdict::Fine)
    }

    /// Writes a pack that replays, without the environment if possible. `None` if it does not replay at all.
    fn smallest(&self, trace: &Trace, file: &Path, path: &Path) -> Result<Option<(Pack, usize, bool)>> {
        let proof = Some(proof::proof_path(file)).filter(|proof| proof.exists());
        for bare in [true, false] {
            let inputs = self.with.clone();
            let options =
                PackOptions { inputs, proof: proof.clone(), bare, runtime: unsnarl_exec::RUNTIME_LIBRARY };
            let pack = gather(trace, &options)?;
            let bytes = pack.encode().context("cannot compress the pack")?;
            fs::write(path, &bytes)
                .map_err(|reason| unsnarl_pack::Error::Write { path: path.into(), reason })?;
            // The recipient has only the file, so it is tested from the file alone.
            if reproduces(&traces::load(path)?)? {
                return Ok(Some((pack, bytes.len(), bare)));
            }
        }
        Ok(None)
    }

    fn print_summary(&self, pack: &Pack, path: &Path, bytes: usize, bare: bool) {
        if self.json {
            let files = pack.entries.iter().map(|entry| {
                json!({ "role": entry.role.name(), "name": entry.name, "origin": entry.origin, "bytes": entry.bytes.len() })
            });
            output::json(&json!({
                "pack": path, "bytes": bytes, "reproduced": true, "environment": !bare, "files": files.collect::<Vec<_>>(),
            }));
            return;
        }
        let quoted = output::quoted(path);
        let environment = if bare {
            "without your environment"
        } else {
            "WITH all of your environment variables, which the failure needs: check them before you share it"
        };
        output::print(&format!(
            "pack     {quoted} ({} files, {:.1} MiB, {environment}; checked: it replays)\n\
             look     tar -tf {quoted}\n\
             replay   unsnarl replay {quoted}   (anywhere)\n\
             check    unsnarl verify {quoted}\n",
            pack.entries.len() + 1,
            bytes as f64 / f64::from(1 << 20),
        ));
    }
}

/// Returns whether a trace with all its files reproduces its outcome.
pub(crate) fn reproduces(trace: &Trace) -> Result<bool> {
    let replayed = replay(trace, &trace.replay_plan(), Settings::default());
    match replayed {
        Ok(replayed) => Ok(replayed.reproduced),
        // A program that does not even start needs what was left out.
        Err(error) if matches!(error.downcast_ref::<Error>(), Some(Error::NotAttached { .. })) => Ok(false),
        Err(error) => Err(error),
    }
}
