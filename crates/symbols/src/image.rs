//! The opened file of one module.

use crate::{
    Frame, FunctionCode, ModuleCode, SizedPart,
    access_calls::{AccessCall, AccessCallFinder},
    debug_file, demangle,
    demangle::stable_name,
    function_code::Shape,
    names::SymbolTable,
    system,
    types::Types,
};
use addr2line::Context;
use gimli::{EndianArcSlice, LittleEndian};
use object::{Object, ObjectSection, ObjectSegment, SymbolKind};
use std::{borrow::Cow, cell::OnceCell, fs, path::Path, sync::Arc};

pub(crate) type Reader = EndianArcSlice<LittleEndian>;

/// Far above any real section, so that a damaged header cannot make us allocate all memory.
const LARGEST_SECTION: u64 = 1 << 31;

/// Longer texts are no names.
const LONGEST_TEXT: usize = 200;

/// A module's file with everything that can be looked up in it. Addresses are those of the file.
pub(crate) struct Image {
    bytes: Arc<[u8]>,
    /// The separate debug file.
    debug: Option<Arc<[u8]>>,
    build_id: Vec<u8>,
    functions: OnceCell<SymbolTable>,
    variables: OnceCell<SymbolTable>,
    lines: OnceCell<Option<Context<Reader>>>,
    types: OnceCell<Types>,
    access_calls: OnceCell<Option<AccessCallFinder>>,
}

impl Image {
    /// Opens a file; returns `None` if it cannot be read or is no ELF file.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let bytes: Arc<[u8]> = fs::read(path).ok()?.into();
        let file = object::File::parse(&*bytes).ok()?;
        let debug = if file.section_by_name(".debug_info").is_some() {
            None
        } else {
            debug_file::read(path, &file).map(Into::into)
        };
        let build_id = file.build_id().ok().flatten().unwrap_or_default().to_vec();
        Some(Self {
            bytes,
            debug,
            build_id,
            functions: OnceCell::new(),
            variables: OnceCell::new(),
            lines: OnceCell::new(),
            types: OnceCell::new(),
            access_calls: OnceCell::new(),
        })
    }

    pub(crate) fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// Returns the functions at an address, innermost first; several if calls were inlined.
    pub(crate) fn frames(&self, address: u64) -> Vec<Frame> {
        let mut frames = self.debug_frames(address).unwrap_or_default();
        // Line tables alone (-g1, assembly) name no function, but the symbol table may.
        if let Some(outermost) = frames.last_mut()
            && outermost.function.is_none()
        {
            outermost.function = self.function(address).map(|(name, _)| name);
        }
        if frames.is_empty()
            && let Some((name, offset)) = self.function(address)
        {
            let system = system::is_system_code(None, Some(&name));
            frames.push(Frame {
                function: Some(with_offset(name, offset, true)),
                system,
                ..Frame::default()
            });
        }
        frames
    }

    /// Returns the name of the variable at an address, like `lock`, `table[4].count`, or without type information
    /// `table+16`. `len` is the number of bytes that are accessed; 0 if that is unknown.
    pub(crate) fn variable(&self, address: u64, len: u64) -> Option<String> {
        /// A variable of this size is no aggregate, or hardly one.
        const WORD: u64 = 8;
        let variables = self.variables.get_or_init(|| SymbolTable::read(&self.files(), SymbolKind::Data));
        let (name, start, size) = variables.range_at(address)?;
        let offset = address - start;
        let name = demangle(without_suffix(name));
        let path = if size > WORD { self.types().path(start, offset, len) } else { None };
        Some(match path {
            Some(path) => name + &path,
            None => with_offset(name, offset, false),
        })
    }

    /// Returns the sizes that a part of an expression can have; `None` if nothing is known of it.
    pub(crate) fn sizes(&self, part: &SizedPart<'_>) -> Option<Vec<u64>> {
        self.types().sizes(part)
    }

    /// Returns whether all members and variables of a name are arrays; `None` if only some are, or none is known.
    pub(crate) fn is_array(&self, name: &str) -> Option<bool> {
        self.types().is_array(name)
    }

    /// Returns the calls that report accesses, in the function at an address.
    pub(crate) fn access_calls_around(&self, address: u64) -> Vec<AccessCall> {
        let Some((_, start, size)) = self.functions().range_at(address) else { return Vec::new() };
        self.access_calls().map(|finder| finder.calls(start..start + size)).unwrap_or_default()
    }

    /// Returns all calls that report accesses.
    pub(crate) fn all_access_calls(&self) -> Vec<AccessCall> {
        let Some(finder) = self.access_calls() else { return Vec::new() };
        let mut calls: Vec<AccessCall> = finder.functions().flat_map(|range| finder.calls(range)).collect();
        calls.sort_by_key(|call| call.site);
        calls.dedup();
        calls
    }

    fn access_calls(&self) -> Option<&AccessCallFinder> {
        let find = || ModuleCode::parse(&self.bytes).map(AccessCallFinder::new);
        self.access_calls.get_or_init(find).as_ref()
    }

    fn types(&self) -> &Types {
        self.types.get_or_init(|| self.dwarf().map(|dwarf| Types::read(&dwarf)).unwrap_or_default())
    }

    /// Returns the address ranges of a function (`push`, including inlined copies), a file (`queue.c`) or a
    /// line (`queue.c:42`).
    pub(crate) fn ranges(&self, name: &str) -> Vec<(u64, u64)> {
        let Some(lines) = self.lines.get_or_init(|| self.read_lines()).as_ref() else { return Vec::new() };
        let (file, line) = match name.rsplit_once(':').map(|(file, line)| (file, line.parse::<u32>())) {
            Some((file, Ok(line))) => (file, Some(line)),
            _ => (name, None),
        };
        let is_file =
            |path: &str| path.strip_suffix(file).is_some_and(|dir| dir.is_empty() || dir.ends_with('/'));
        let is_function = |frame: &Frame| frame.function.as_deref().is_some_and(|f| names_function(f, name));
        let Ok(rows) = lines.find_location_range(0, u64::MAX) else { return Vec::new() };
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (start, size, location) in rows {
            let by_file = location.file.is_some_and(|path| is_file(&normalise(path)))
                && line.is_none_or(|line| location.line == Some(line));
            if by_file || self.debug_frames(start).is_some_and(|frames| frames.iter().any(is_function)) {
                match ranges.last_mut() {
                    Some((_, end)) if *end == start => *end = start + size,
                    _ => ranges.push((start, start + size)),
                }
            }
        }
        ranges
    }

    /// Returns the C string at an address.
    pub(crate) fn text(&self, address: u64) -> Option<String> {
        let file = object::File::parse(&*self.bytes).ok()?;
        file.segments().find_map(|segment| {
            let at = usize::try_from(address.checked_sub(segment.address())?).ok()?;
            let bytes = segment.data().ok()?.get(at..)?;
            let end = bytes.iter().take(LONGEST_TEXT).position(|&byte| byte == 0)?;
            String::from_utf8(bytes[..end].to_vec()).ok()
        })
    }

    /// Returns the function that covers an address.
    pub(crate) fn function_code_at(&self, address: u64) -> Option<FunctionCode> {
        let (name, start, size) = self.functions().range_at(address)?;
        Some(self.function_code(name, start, size))
    }

    /// Returns the only function with this stable linkage name.
    pub(crate) fn function_code_of(&self, name: &str) -> Option<FunctionCode> {
        let (start, size) = self.functions().range_of(name)?;
        Some(self.function_code(name, start, size))
    }

    fn function_code(&self, name: &str, start: u64, size: u64) -> FunctionCode {
        let lines = self.lines.get_or_init(|| self.read_lines()).as_ref();
        let rows = lines.and_then(|lines| lines.find_location_range(start, start + size).ok());
        let row = |(at, _, location): (u64, u64, addr2line::Location<'_>)| {
            (at.saturating_sub(start), location.column.unwrap_or(0))
        };
        let rows = rows.into_iter().flatten().map(row).collect();
        FunctionCode { name: stable_name(name).to_owned(), start, shape: Shape { size, rows } }
    }

    fn function(&self, address: u64) -> Option<(String, u64)> {
        self.functions().at(address).map(|(name, offset)| (demangle(name), offset))
    }

    fn functions(&self) -> &SymbolTable {
        self.functions.get_or_init(|| SymbolTable::read(&self.files(), SymbolKind::Text))
    }

    fn debug_frames(&self, address: u64) -> Option<Vec<Frame>> {
        let lines = self.lines.get_or_init(|| self.read_lines()).as_ref()?;
        let mut found = lines.find_frames(address).skip_all_loads().ok()?;
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = found.next() {
            let function = frame.function.and_then(|name| Some(demangle(&name.raw_name().ok()?)));
            let location = frame.location;
            let file = location.as_ref().and_then(|l| l.file.map(normalise));
            frames.push(Frame {
                system: system::is_system_code(file.as_deref(), function.as_deref()),
                function,
                file,
                // The compiler writes 0 if no line is responsible.
                line: location.as_ref().and_then(|l| l.line).filter(|&line| line > 0),
                column: location.as_ref().and_then(|l| l.column).filter(|&column| column > 0),
            });
        }
        frames.retain(|f| f.function.is_some() || f.line.is_some());
        Some(frames)
    }

    fn read_lines(&self) -> Option<Context<Reader>> {
        Context::from_dwarf(self.dwarf()?).ok()
    }

    /// Returns the debug information.
    pub(crate) fn dwarf(&self) -> Option<gimli::Dwarf<Reader>> {
        let bytes = self.debug.as_ref().unwrap_or(&self.bytes);
        let file = object::File::parse(&**bytes).ok()?;
        file.section_by_name(".debug_info")?;
        let load = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
            Ok(section(bytes, &file, id.name()).unwrap_or_else(|| reader(Arc::from([]))))
        };
        gimli::Dwarf::load(load).ok()
    }

    /// Returns the parsed files that contain symbols.
    fn files(&self) -> Vec<object::File<'_>> {
        [Some(&self.bytes), self.debug.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|bytes| object::File::parse(&**bytes).ok())
            .collect()
    }
}

fn reader(bytes: Arc<[u8]>) -> Reader {
    EndianArcSlice::new(bytes, LittleEndian)
}

/// Returns a section's contents: a view of the file, or a copy if it is compressed.
fn section(bytes: &Arc<[u8]>, file: &object::File<'_>, name: &str) -> Option<Reader> {
    let section = file.section_by_name(name)?;
    let data = section.compressed_data().ok()?;
    if data.uncompressed_size > LARGEST_SECTION {
        return None;
    }
    match data.decompress().ok()? {
        Cow::Owned(copy) => Some(reader(copy.into())),
        Cow::Borrowed(data) => {
            let (start, size) = section.file_range()?;
            let start = usize::try_from(start).ok()?;
            debug_assert_eq!(data.len() as u64, size);
            Some(reader(Arc::clone(bytes)).range(start..start + data.len()))
        }
    }
}

fn with_offset(name: String, offset: u64, hexadecimal: bool) -> String {
    match (offset, hexadecimal) {
        (0, _) => name,
        (_, true) => format!("{name}+{offset:#x}"),
        (_, false) => format!("{name}+{offset}"),
    }
}

/// Returns whether a function has this name, with or without its namespaces, its arguments and its `::<…>`.
fn names_function(function: &str, name: &str) -> bool {
    let plain = function.split(['(', '<']).next().unwrap_or(function).trim_end_matches(':');
    [function, plain].iter().any(|f| *f == name || f.strip_suffix(name).is_some_and(|ns| ns.ends_with("::")))
}

/// Removes the number from `counter.0`, gcc's name of a `static` inside a function.
fn without_suffix(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, number)) if !stem.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => stem,
        _ => name,
    }
}

/// Normalises a path as the user would write it: `/home/me/./src/../a.c` is `/home/me/a.c`.
fn normalise(file: &str) -> String {
    if !file.contains("/.") {
        return file.to_owned();
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in file.split('/') {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|&last| !last.is_empty() && last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_match_with_or_without_namespaces() {
        assert!(names_function("queue::push", "push") && names_function("push", "push"));
        assert!(names_function("Queue::push(int)", "push") && names_function("a::b::push", "b::push"));
        assert!(!names_function("queue::try_push", "push"));
    }

    #[test]
    fn paths_are_normalised() {
        assert_eq!(normalise("/a/./b/../c.c"), "/a/c.c");
        assert_eq!(normalise("../c.c"), "../c.c");
        assert_eq!(normalise("/a/.hidden/c.c"), "/a/.hidden/c.c");
    }
}
