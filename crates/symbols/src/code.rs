//! The code of a module: its executable bytes, its functions, and how it calls other modules.

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, RelocationTarget, SectionKind, SymbolKind};
use std::{fs, ops::Range, path::Path};

/// A module's code, at the addresses of the file.
#[derive(Clone, Debug, Default)]
pub struct ModuleCode {
    /// Executable bytes with their start address.
    pub segments: Vec<(u64, Vec<u8>)>,
    /// Functions with their symbols, sorted by start address.
    pub functions: Vec<(Range<u64>, String)>,
    /// Stubs by which functions of other modules are called.
    pub stubs: Vec<Range<u64>>,
    /// Words that the loader fills with the address of a symbol.
    pub slots: Vec<(u64, String)>,
    /// Words that the loader fills permanently with the address of a function of this module, with that
    /// address.
    pub local_slots: Vec<(u64, u64)>,
    /// Global and static variables with their symbols.
    pub variables: Vec<(Range<u64>, String)>,
}

impl ModuleCode {
    /// Reads a file; returns `None` if it cannot be read or is no ELF file.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        Self::parse(&fs::read(path).ok()?)
    }

    /// Reads the contents of a file; returns `None` if it is no ELF file.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let mut code = Self::default();
        for segment in file.segments() {
            let executable =
                matches!(segment.flags(), object::SegmentFlags::Elf { p_flags, .. } if p_flags.0 & 1 != 0);
            if executable && let Ok(data) = segment.data() {
                code.segments.push((segment.address(), data.to_vec()));
            }
        }
        for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
            if section.name().is_ok_and(|name| name.starts_with(".plt")) {
                code.stubs.push(section.address()..section.address() + section.size());
            }
        }
        code.functions = functions(&file);
        code.variables = file
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.is_definition() && symbol.size() > 0)
            .filter_map(|s| Some((s.address()..s.address() + s.size(), s.name().ok()?.to_owned())))
            .collect();
        let symbols = file.dynamic_symbol_table();
        let tables: Vec<Range<u64>> = file
            .sections()
            .filter(|section| section.name().is_ok_and(|name| matches!(name, ".got" | ".got.plt")))
            .map(|section| section.address()..section.address() + section.size())
            .collect();
        for (address, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let RelocationTarget::Symbol(index) = relocation.target() else {
                if tables.iter().any(|table| table.contains(&address)) {
                    code.local_slots.push((address, relocation.addend() as u64));
                }
                continue;
            };
            use object::ObjectSymbolTable;
            let name =
                symbols.as_ref().and_then(|s| s.symbol_by_index(index).ok()?.name().ok().map(str::to_owned));
            code.slots.extend(name.filter(|name| !name.is_empty()).map(|name| (address, name)));
        }
        Some(code)
    }
}

fn functions(file: &object::File<'_>) -> Vec<(Range<u64>, String)> {
    let mut functions: Vec<(Range<u64>, String)> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|s| Some((s.address()..s.address() + s.size(), s.name().ok()?.to_owned())))
        .collect();
    functions.sort_by_key(|(range, _)| (range.start, range.end));
    functions.dedup();
    // Hand-written code may lack sizes.
    for at in 0..functions.len() {
        if functions[at].0.is_empty() {
            let start = functions[at].0.start;
            let next = functions[at..].iter().map(|(range, _)| range.start).find(|&next| next > start);
            functions[at].0.end = next.unwrap_or(start + 1);
        }
    }
    functions
}
