//! Resolves the names after `--points`: functions, files and lines.

use crate::verdict::UsageError;
use anyhow::{Result, bail};
use unsnarl_model::{Places, Program, Span};
use unsnarl_symbols::Symbols;

/// The places of functions (`push`), files (`queue.c`) and lines (`queue.c:42`).
pub(crate) fn resolve(program: &Program, names: &[String]) -> Result<Places> {
    let mut symbols = Symbols::new();
    let mut places = Places::default();
    let module = places.module(&program.path);
    for name in names {
        let ranges = symbols.ranges(&program.path, name);
        if ranges.is_empty() {
            bail!(UsageError(format!(
                "--points: {} has no function, file or line `{name}` with code; is it built with -g?",
                program.path
            )));
        }
        for (start, end) in ranges {
            places.add(Span { module, start, end });
        }
    }
    Ok(places)
}
