//! Names of code and data.

use crate::functions;
use std::{
    collections::{HashMap, hash_map::Entry},
    fs,
    path::Path,
};
use unsnarl_model::{Module, Site};
use unsnarl_source::{
    Call, Language, Part, SourceFile,
    matching::{self, Instruction},
};
use unsnarl_symbols::{Frame, ReportedAccess, SizedPart, Symbols};

/// Names of the code and data of one trace.
pub trait Names {
    /// Returns the functions at a site, innermost first: several if calls were inlined.
    fn frames(&mut self, site: Site) -> Vec<Frame>;

    /// Returns the global variable at an address, like `lock`, `table[4].count`, or without types `table+16`.
    fn variable(&mut self, addr: u64) -> Option<String>;

    /// Like [`variable`](Self::variable), for an access to this many bytes.
    fn accessed_variable(&mut self, addr: u64, _len: u64) -> Option<String> {
        self.variable(addr)
    }

    /// Returns the C string at an address of a module's constant data.
    fn text(&mut self, addr: u64) -> Option<String>;

    /// Returns the expression of the source that an access at this site is to. `frame` is the site's innermost frame.
    fn accessed_place(&mut self, _site: Site, _frame: &Frame, _access: Instruction) -> Option<String> {
        None
    }

    /// Returns the call in the source that a frame of this site is at.
    fn call(&mut self, _site: Site, _frame: &Frame) -> Option<Call> {
        None
    }

    /// Returns a line of a source file.
    fn source_line(&mut self, file: &str, line: u32) -> Option<String>;

    /// Returns the most useful frame of a site: the innermost one in the user's own code, such as the line with the
    /// `lock_guard` rather than the one inside it.
    fn place(&mut self, site: Site) -> Frame {
        let mut frames = self.frames(site);
        let of_user = frames.iter().position(|frame| !frame.system).unwrap_or(0);
        if frames.is_empty() { Frame::default() } else { frames.swap_remove(of_user) }
    }
}

/// Names from the program's files and its sources.
#[derive(Debug)]
pub struct ProgramNames<'a> {
    symbols: &'a mut Symbols,
    modules: &'a [Module],
    frames: HashMap<Site, Vec<Frame>>,
    sources: HashMap<String, Vec<String>>,
    /// Sources that are as old as the build, parsed.
    parsed: HashMap<String, Option<SourceFile>>,
}

impl<'a> ProgramNames<'a> {
    /// Creates the names for a trace with these modules.
    pub fn new(modules: &'a [Module], symbols: &'a mut Symbols) -> Self {
        Self { symbols, modules, frames: HashMap::new(), sources: HashMap::new(), parsed: HashMap::new() }
    }
}

impl ProgramNames<'_> {
    /// Returns the parsed source file of a frame, if it is the one that the site's module was built from.
    fn source(&mut self, site: Site, frame: &Frame) -> Option<&SourceFile> {
        let file = frame.file.as_deref()?;
        let module = self.modules.get(usize::from(site.module.0))?;
        if !self.parsed.contains_key(file) {
            let text = packed(&module.path, file).or_else(|| unchanged_since_build(file, &module.path));
            let text = text.and_then(|text| String::from_utf8(text).ok());
            let parsed =
                Language::of_file(file).zip(text).and_then(|(kind, text)| SourceFile::parse(kind, text));
            self.parsed.insert(file.to_owned(), parsed);
        }
        self.parsed.get(file)?.as_ref()
    }

    /// Returns the instructions of the site's function that come from the same source line and column as this one, in
    /// their order, and the index of this one.
    fn instructions_like(&mut self, site: Site, access: Instruction) -> (Vec<Instruction>, usize) {
        let here = self.frames(site);
        let mut group = Vec::new();
        let mut index = None;
        for call in self.symbols.access_calls_around(self.modules, site) {
            let at = Site { offset: call.site, ..site };
            let instruction = match call.access {
                ReportedAccess::Read(size) => Instruction { writes: false, size },
                ReportedAccess::Write(size) | ReportedAccess::Update(size) => {
                    Instruction { writes: true, size }
                }
                ReportedAccess::Atomic(_) => continue,
            };
            if at == site {
                index = Some(group.len());
                // Of a read that is followed by a write there is one call.
                group.push(Instruction { size: access.size, ..instruction });
            } else if self.frames(at) == here {
                group.push(instruction);
            }
        }
        match index {
            Some(index) => (group, index),
            None => (vec![access], 0),
        }
    }
}

impl Names for ProgramNames<'_> {
    fn frames(&mut self, site: Site) -> Vec<Frame> {
        match self.frames.entry(site) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => new.insert(self.symbols.lookup(self.modules, site)).clone(),
        }
    }

    fn variable(&mut self, addr: u64) -> Option<String> {
        self.accessed_variable(addr, 0)
    }

    fn accessed_variable(&mut self, addr: u64, len: u64) -> Option<String> {
        let name = self.symbols.data_symbol_of(self.modules, addr, len)?;
        // Names local to a file or to the program's own crate are shown without a prefix.
        let name = name.replace("_GLOBAL__N_1::", "").replace("(anonymous namespace)::", "");
        let program = self.modules.first().and_then(|module| module.path.rsplit('/').next());
        let program = program.unwrap_or_default().replace('-', "_") + "::";
        Some(functions::variable(name.strip_prefix(&program).unwrap_or(&name)))
    }

    fn text(&mut self, addr: u64) -> Option<String> {
        self.symbols.text(self.modules, addr)
    }

    fn accessed_place(&mut self, site: Site, frame: &Frame, access: Instruction) -> Option<String> {
        let (line, column) = (frame.line?, frame.column?);
        let accesses = self.source(site, frame)?.accesses_at(line, column)?;
        let (group, index) = self.instructions_like(site, access);
        let Self { symbols, modules, .. } = self;
        let mut sizes = |part: &Part| {
            let part = match part {
                Part::Named(name) => SizedPart::Named(name),
                Part::Inside(name) => SizedPart::Inside(name),
            };
            symbols.sizes(modules, site, &part)
        };
        matching::place_of(&accesses, &group, index, &mut sizes)
    }

    fn call(&mut self, site: Site, frame: &Frame) -> Option<Call> {
        let (line, column) = (frame.line?, frame.column?);
        self.source(site, frame)?.call_at(line, column)
    }

    fn source_line(&mut self, file: &str, line: u32) -> Option<String> {
        let modules = self.modules;
        let lines = self.sources.entry(file.to_owned()).or_insert_with(|| {
            let packed = modules.first().and_then(|program| packed(&program.path, file));
            let bytes = packed.or_else(|| fs::read(file).ok()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
        });
        lines.get(usize::try_from(line).ok()?.checked_sub(1)?).cloned()
    }
}

/// Returns a source file, unless it was changed after the program was built: its columns would be others.
fn unchanged_since_build(file: &str, program: &str) -> Option<Vec<u8>> {
    let modified = |path: &str| fs::metadata(path).and_then(|file| file.modified()).ok();
    if modified(file)? > modified(program)? {
        return None;
    }
    fs::read(file).ok()
}

/// Returns a source file from the program's pack: the file at its path on this machine may be another.
fn packed(program: &str, file: &str) -> Option<Vec<u8>> {
    let pack = Path::new(program).parent().filter(|directory| directory.ends_with("program"))?.parent()?;
    fs::read(pack.join("src").join(file.strip_prefix('/')?)).ok()
}
