//! Inspects a file before it is run: whether unsnarl can run it, and how much it will observe.

use crate::units::UnitScan;
use object::{
    BinaryFormat, Endianness, Object, ObjectSection, ReadCache, ReadRef,
    elf::{self, FileHeader64},
    pod,
    read::elf::{Dyn, FileHeader, ProgramHeader},
};
use std::{
    fs::File,
    io::{self, Read, Seek},
    ops::Range,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// The kind of a file with respect to running it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElfKind {
    /// A program with a dynamic linker, which unsnarl can run.
    DynamicExecutable,
    /// A program without a dynamic linker: no library can be loaded into it.
    StaticExecutable,
    /// A library.
    SharedLibrary,
    /// A compiled object file, not linked yet.
    Relocatable,
    /// A core dump.
    Core,
    /// For 32-bit machines.
    Bits32,
    /// For a processor other than x86-64, with its number in the file.
    WrongMachine(u16),
    /// A script, with its interpreter.
    Script(String),
    /// Neither ELF nor a script, or damaged.
    NotElf,
}

/// The C library that a program is linked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libc {
    /// The GNU C library, which unsnarl supports.
    Glibc,
    /// The C library of Alpine Linux and others.
    Musl,
    /// Another one, or none.
    Unknown,
}

/// The kind of a file and its properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The kind; all other fields are empty unless it is ELF for x86-64.
    pub kind: ElfKind,
    /// The requested dynamic linker.
    pub interpreter: Option<String>,
    /// The required libraries.
    pub needed: Vec<String>,
    /// The imported functions and variables.
    pub imports: Vec<String>,
    /// The linker's build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// True if it contains debug information (there may also be a separate debug file).
    pub debug_info: bool,
    /// True if it was compiled with `-fsanitize=thread`: it calls `__tsan_…` functions.
    pub instrumented: bool,
    /// The names of the source files in an instrumented binary that were compiled without instrumentation, as far as its
    /// symbol table shows them.
    pub uninstrumented_units: Vec<String>,
    /// True if TSan's own runtime is linked into it, so that ours cannot replace it.
    pub contains_tsan: bool,
    /// True if MemorySanitizer's runtime is linked into it.
    pub contains_msan: bool,
    /// True if AddressSanitizer's runtime is linked into it.
    pub contains_asan: bool,
    /// True if it has a checkpoint for unsnarl: it refers to `__unsnarl_checkpoint`.
    pub checkpoint: bool,
    /// The address in the file of the panic count of Rust's standard library.
    pub panic_count: Option<u64>,
    /// The address ranges in the file of functions in which Rust's standard library spins before it waits for
    /// a lock.
    pub spin_functions: Vec<Range<u64>>,
    /// The address ranges in the file of functions in which Rust's standard library may order threads without waiting.
    pub ordering_functions: Vec<Range<u64>>,
    /// True if it is a Go program, with a scheduler of its own.
    pub is_go: bool,
}

/// The reason why a file could not be inspected.
#[derive(Debug, Error)]
#[error("cannot read {path}: {cause}")]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub cause: io::Error,
}

impl Binary {
    /// Inspects a file. Only the necessary parts are read, so large programs cost no more than small ones.
    ///
    /// # Errors If the file cannot be read. A file that is no program is a [`ElfKind`], not an error.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let cannot = |cause| ReadError { path: path.to_owned(), cause };
        let mut file = File::open(path).map_err(cannot)?;
        if file.metadata().map_err(cannot)?.is_dir() {
            return Err(cannot(io::ErrorKind::IsADirectory.into()));
        }
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(256).read_to_end(&mut start).map_err(cannot)?;
        file.rewind().map_err(cannot)?;
        Ok(match start.as_slice() {
            [b'#', b'!', line @ ..] => {
                let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
                Self::only(ElfKind::Script(String::from_utf8_lossy(line).trim().to_owned()))
            }
            [0x7f, b'E', b'L', b'F', class, ..] if *class == elf::ELFCLASS32.0 => Self::only(ElfKind::Bits32),
            [0x7f, b'E', b'L', b'F', ..] => {
                let cache = ReadCache::new(file);
                Self::inspect(&cache).unwrap_or_else(|| Self::only(ElfKind::NotElf))
            }
            _ => Self::only(ElfKind::NotElf),
        })
    }

    /// Returns the C library that it is linked against.
    #[must_use]
    pub fn libc(&self) -> Libc {
        let named = |part: &str| {
            self.interpreter.iter().chain(&self.needed).any(|name| name.rsplit('/').next() == Some(part))
        };
        if named("ld-musl-x86_64.so.1") || named("libc.musl-x86_64.so.1") {
            Libc::Musl
        } else if named("ld-linux-x86-64.so.2") || named("libc.so.6") {
            Libc::Glibc
        } else {
            Libc::Unknown
        }
    }

    /// Records what a symbol reveals about the file.
    fn inspect_symbol(&mut self, symbol: Symbol<'_>) {
        let defines = |name: &[u8]| symbol.address.is_some() && symbol.name == name;
        self.instrumented |= symbol.name.starts_with(b"__tsan_");
        // A program can define single functions (`__tsan_on_report`); only the runtime defines this one.
        self.contains_tsan |= defines(b"__tsan_init");
        self.contains_msan |= defines(b"__msan_init");
        self.contains_asan |= defines(b"__asan_init");
        self.checkpoint |= symbol.name == b"__unsnarl_checkpoint";
        if is_panic_count(symbol.name) {
            self.panic_count = symbol.address.or(self.panic_count);
        }
        let Some(start) = symbol.address else { return };
        let range = start..start.saturating_add(symbol.size);
        if is_lock_slow_path(symbol.name) {
            self.spin_functions.push(range);
        } else if orders_threads(symbol.name) && !self.ordering_functions.contains(&range) {
            self.ordering_functions.push(range);
        }
    }

    const fn only(kind: ElfKind) -> Self {
        Self {
            kind,
            interpreter: None,
            needed: Vec::new(),
            imports: Vec::new(),
            build_id: Vec::new(),
            debug_info: false,
            instrumented: false,
            uninstrumented_units: Vec::new(),
            contains_tsan: false,
            contains_msan: false,
            contains_asan: false,
            checkpoint: false,
            panic_count: None,
            spin_functions: Vec::new(),
            ordering_functions: Vec::new(),
            is_go: false,
        }
    }

    fn inspect<'data, R: ReadRef<'data>>(data: R) -> Option<Self> {
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let machine = header.e_machine(endian);
        if machine != elf::EM_X86_64 {
            return Some(Self::only(ElfKind::WrongMachine(machine.0)));
        }
        let linking = Linking::read(header, endian, data)?;
        let mut binary = Self::only(linking.kind(header.e_type(endian)));
        let file = object::File::parse(data).ok()?;
        debug_assert_eq!(file.format(), BinaryFormat::Elf);
        binary.build_id = file.build_id().ok().flatten().unwrap_or_default().to_vec();
        binary.debug_info = file.section_by_name(".debug_info").is_some_and(|section| section.size() > 0);
        binary.is_go =
            [".note.go.buildid", ".go.buildinfo"].iter().any(|n| file.section_by_name(n).is_some());
        each_symbol(&file, endian, [".dynsym", ".dynstr"], |symbol| {
            if symbol.address.is_none() && !symbol.name.is_empty() {
                binary.imports.push(String::from_utf8_lossy(symbol.name).into_owned());
            }
            binary.inspect_symbol(symbol);
        });
        let mut units = UnitScan::default();
        each_symbol(&file, endian, [".symtab", ".strtab"], |symbol| {
            binary.inspect_symbol(symbol);
            match symbol.kind {
                SymbolKind::File => units.begin(symbol.name),
                SymbolKind::Local => units.local(symbol.name),
                SymbolKind::Other => {}
            }
        });
        if binary.instrumented {
            binary.uninstrumented_units = units.finish();
        }
        binary.interpreter = linking.interpreter;
        binary.needed = linking.needed;
        Some(binary)
    }
}

/// A symbol of a file.
#[derive(Clone, Copy)]
struct Symbol<'a> {
    name: &'a [u8],
    /// `None` if it is imported.
    address: Option<u64>,
    size: u64,
    kind: SymbolKind,
}

/// The role of a symbol among those of its translation unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SymbolKind {
    /// The name of a unit's source file; the unit's local symbols follow.
    File,
    Local,
    Other,
}

/// Iterates over the symbols of a table. The table and its names are read at once, because a file access for
/// each name takes as long as many runs.
fn each_symbol<'data, R: ReadRef<'data>>(
    file: &object::File<'data, R>,
    endian: Endianness,
    [table, strings]: [&str; 2],
    mut see: impl FnMut(Symbol<'_>),
) {
    let data = |name| file.section_by_name(name).and_then(|section| section.data().ok()).unwrap_or_default();
    let (table, strings) = (data(table), data(strings));
    let entries = table.chunks_exact(size_of::<elf::Sym64<Endianness>>());
    for entry in entries.filter_map(|bytes| pod::from_bytes::<elf::Sym64<Endianness>>(bytes).ok()) {
        let (entry, _) = entry;
        let Some(name) = strings.get(entry.st_name.get(endian) as usize..) else { continue };
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let defined = entry.st_shndx.get(endian) != elf::SHN_UNDEF;
        let address = defined.then(|| entry.st_value.get(endian));
        let kind = if entry.st_type() == elf::STT_FILE {
            SymbolKind::File
        } else if entry.st_bind() == elf::STB_LOCAL {
            SymbolKind::Local
        } else {
            SymbolKind::Other
        };
        see(Symbol { name, address, size: entry.st_size.get(endian), kind });
    }
}

/// Returns whether a symbol is `std::panicking::panic_count::GLOBAL_PANIC_COUNT`, in either mangling.
fn is_panic_count(symbol: &[u8]) -> bool {
    is_path(symbol, b"3std9panicking11panic_count18GLOBAL_PANIC_COUNT")
}

/// Returns whether a symbol is the slow path of `std::sync::Mutex` or `RwLock`.
fn is_lock_slow_path(symbol: &[u8]) -> bool {
    let of_library = || symbol.windows(8).any(|part| part == b"3std3sys");
    let contended: [&[u8]; 3] = [b"14lock_contended", b"14read_contended", b"15write_contended"];
    contended.iter().any(|path| is_path(symbol, path)) && of_library()
}

/// Returns whether this function of Rust's standard library may acquire what another thread has released, without
/// waiting for it.
fn orders_threads(symbol: &[u8]) -> bool {
    /// The module and the function, as parts of mangled names.
    const FUNCTIONS: [(&[u8], &[u8]); 11] = [
        (b"4sync4once", b"4Once4call"),
        (b"4sync4once", b"4Once4wait"),
        (b"3std6thread", b"4park"),
        (b"3std6thread", b"12park_timeout"),
        (b"3std2io5stdio", b"5Stdin4lock"),
        (b"3std2io5stdio", b"6Stdout4lock"),
        (b"3std2io5stdio", b"6Stderr4lock"),
        (b"13ReentrantLock", b"4lock"),
        (b"13ReentrantLock", b"8try_lock"),
        (b"4sync7barrier", b"7Barrier4wait"),
        (b"4sync4mpmc7context", b"7Context10wait_until"),
    ];
    let contains = |part: &[u8]| symbol.windows(part.len()).any(|window| window == part);
    FUNCTIONS
        .iter()
        .any(|(module, function)| is_path(symbol, function) && contains(module) && contains(b"3std"))
}

/// Returns whether a Rust symbol ends with this path, in either mangling.
fn is_path(symbol: &[u8], path: &[u8]) -> bool {
    // The older mangling ends with a hash: `17h`, sixteen digits, `E`.
    let older = symbol.len().checked_sub(20).map(|end| &symbol[..end]);
    symbol.ends_with(path) || older.is_some_and(|older| older.ends_with(path))
}

/// The dynamic linking information of a file.
#[derive(Default)]
struct Linking {
    interpreter: Option<String>,
    needed: Vec<String>,
    /// True if the file names itself as a library.
    soname: bool,
    /// True if the linker marked it as a position-independent program.
    pie: bool,
}

impl Linking {
    fn read<'data, R: ReadRef<'data>>(
        header: &FileHeader64<Endianness>,
        endian: Endianness,
        data: R,
    ) -> Option<Self> {
        let mut linking = Self::default();
        let sections = header.sections(endian, data).ok();
        for segment in header.program_headers(endian, data).ok()? {
            if let Ok(Some(name)) = segment.interpreter(endian, data) {
                linking.interpreter = Some(String::from_utf8_lossy(name).into_owned());
            }
            let Ok(Some(entries)) = segment.dynamic(endian, data) else { continue };
            let strings = sections.as_ref().and_then(|sections| {
                let (_, index) = sections.dynamic(endian, data).ok()??;
                sections.strings(endian, data, index).ok()
            });
            for entry in entries {
                let tag = entry.tag(endian);
                match tag {
                    elf::DT_NEEDED => {
                        if let Some(Ok(name)) = strings.map(|s| entry.string(endian, s)) {
                            linking.needed.push(String::from_utf8_lossy(name).into_owned());
                        }
                    }
                    elf::DT_SONAME => linking.soname = true,
                    elf::DT_FLAGS_1 => linking.pie = entry.val(endian) & elf::DF_1_PIE.0 != 0,
                    _ => {}
                }
            }
        }
        Some(linking)
    }

    fn kind(&self, file_type: elf::FileType) -> ElfKind {
        match file_type {
            elf::ET_REL => ElfKind::Relocatable,
            elf::ET_CORE => ElfKind::Core,
            // libc.so.6 can be run, and so has an interpreter, but it is a library nevertheless.
            elf::ET_DYN if self.soname && !self.pie => ElfKind::SharedLibrary,
            elf::ET_EXEC | elf::ET_DYN if self.interpreter.is_some() => ElfKind::DynamicExecutable,
            elf::ET_EXEC => ElfKind::StaticExecutable,
            elf::ET_DYN if self.pie => ElfKind::StaticExecutable,
            elf::ET_DYN => ElfKind::SharedLibrary,
            _ => ElfKind::NotElf,
        }
    }
}

/// Returns the linker's build id of a file; empty if it has none or does not exist.
#[must_use]
pub fn build_id(path: &Path) -> Vec<u8> {
    Binary::read(path).map(|binary| binary.build_id).unwrap_or_default()
}

/// Returns whether a file has debug information.
#[must_use]
pub fn has_debug_info(path: &Path) -> bool {
    Binary::read(path).is_ok_and(|binary| binary.debug_info)
}

/// Returns whether a file was compiled with `-fsanitize=thread`.
#[must_use]
pub fn is_instrumented(path: &Path) -> bool {
    Binary::read(path).is_ok_and(|binary| binary.instrumented)
}

/// Returns the kind of a file with respect to running it.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn elf_kind(path: &Path) -> Result<ElfKind, ReadError> {
    Binary::read(path).map(|binary| binary.kind)
}
