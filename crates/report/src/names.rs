//! Names of code and data.

use crate::functions;
use std::{
    collections::{HashMap, hash_map::Entry},
    fs,
    path::Path,
};
use unsnarl_model::{Module, Site};
use unsnarl_source::{Expression, Language, SourceFile, Subject};
use unsnarl_symbols::{Frame, Symbols};

/// Names of the code and data of one trace.
pub trait Names {
    /// Returns the functions at a site, innermost first: several if calls were inlined.
    fn frames(&mut self, site: Site) -> Vec<Frame>;

    /// Returns the global variable at an address, like `lock` or `table+16`.
    fn variable(&mut self, addr: u64) -> Option<String>;

    /// Returns the C string at an address of a module's constant data.
    fn text(&mut self, addr: u64) -> Option<String>;

    /// Returns the source expression at a place that an instruction of this site comes from.
    fn expression(&mut self, _site: Site, _place: &Frame, _subject: Subject) -> Option<Expression> {
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

impl Names for ProgramNames<'_> {
    fn frames(&mut self, site: Site) -> Vec<Frame> {
        match self.frames.entry(site) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => new.insert(self.symbols.lookup(self.modules, site)).clone(),
        }
    }

    fn variable(&mut self, addr: u64) -> Option<String> {
        let name = self.symbols.data_symbol(self.modules, addr)?;
        // Names local to a file or to the program's own crate are shown without a prefix.
        let name = name.replace("_GLOBAL__N_1::", "").replace("(anonymous namespace)::", "");
        let program = self.modules.first().and_then(|module| module.path.rsplit('/').next());
        let program = program.unwrap_or_default().replace('-', "_") + "::";
        Some(functions::variable(name.strip_prefix(&program).unwrap_or(&name)))
    }

    fn text(&mut self, addr: u64) -> Option<String> {
        self.symbols.text(self.modules, addr)
    }

    fn expression(&mut self, site: Site, place: &Frame, subject: Subject) -> Option<Expression> {
        let (file, line, column) = (place.file.as_deref()?, place.line?, place.column?);
        let module = self.modules.get(usize::from(site.module.0))?;
        let parsed = self.parsed.entry(file.to_owned()).or_insert_with(|| {
            let text = packed(&module.path, file).or_else(|| unchanged_since_build(file, &module.path))?;
            SourceFile::parse(Language::of_file(file)?, String::from_utf8(text).ok()?)
        });
        parsed.as_ref()?.expression_at(line, column, subject)
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
