//! The accesses of a compiled program's own code, and the names that reports give them.

use std::path::Path;
use unsnarl_model::{Module, ModuleIx, Site};
use unsnarl_report::{Names, ProgramNames};
use unsnarl_source::matching::Instruction;
use unsnarl_symbols::{Frame, ReportedAccess, Symbols};

/// An access of the user's code.
#[derive(Clone, Debug)]
pub(crate) struct NamedAccess {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) writes: bool,
    pub(crate) size: u64,
    pub(crate) name: Option<String>,
}

/// Returns the plain accesses whose innermost frame is in code of the user's.
pub(crate) fn named_accesses(program: &Path) -> Vec<NamedAccess> {
    let modules = [Module { path: program.display().to_string(), ..Module::default() }];
    let calls = Symbols::new().access_calls(&modules[0]);
    let mut symbols = Symbols::new();
    let mut names = ProgramNames::new(&modules, &mut symbols);
    let mut named = Vec::new();
    for call in calls {
        let site = Site { module: ModuleIx(0), offset: call.site };
        let Some(frame) = names.frames(site).into_iter().next().filter(|frame| !frame.system) else { continue };
        let Frame { file: Some(file), line: Some(line), column, .. } = frame.clone() else { continue };
        let instruction = match call.access {
            ReportedAccess::Read(size) => Instruction { writes: false, size },
            ReportedAccess::Write(size) | ReportedAccess::Update(size) => Instruction { writes: true, size },
            ReportedAccess::Atomic(_) => continue,
        };
        let name = names.accessed_place(site, &frame, instruction);
        let Instruction { writes, size } = instruction;
        named.push(NamedAccess { file, line, column: column.unwrap_or(0), writes, size, name });
    }
    named
}
