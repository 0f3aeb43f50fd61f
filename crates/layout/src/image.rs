//! An ELF file as the kernel maps it.

use crate::sys::{self, MapMode};
use core::{mem::MaybeUninit, ops::Range};

const PAGE: usize = 4096;
/// More program headers than any linker writes.
const MAX_HEADERS: usize = 64;

/// The headers of an open ELF file.
pub(crate) struct Image {
    fd: i32,
    header: libc::Elf64_Ehdr,
    segments: [libc::Elf64_Phdr; MAX_HEADERS],
}

/// The addresses at which an image was mapped.
pub(crate) struct LoadedImage {
    pub(crate) base: usize,
    pub(crate) entry: usize,
    /// The address of its program headers.
    pub(crate) headers: usize,
    /// The address of the first page behind it.
    pub(crate) end: usize,
}

impl Image {
    pub(crate) fn read(fd: i32) -> Option<Self> {
        let header: libc::Elf64_Ehdr = read(fd, 0)?;
        if header.e_ident[..4] != *b"\x7fELF" || usize::from(header.e_phnum) > MAX_HEADERS {
            return None;
        }
        // SAFETY: plain numbers; all zeros is a header without a type.
        let mut segments: [libc::Elf64_Phdr; MAX_HEADERS] = unsafe { core::mem::zeroed() };
        for (nth, segment) in segments.iter_mut().enumerate().take(header.e_phnum.into()) {
            *segment = read(fd, header.e_phoff + (nth * size_of::<libc::Elf64_Phdr>()) as u64)?;
        }
        Some(Self { fd, header, segments })
    }

    /// Returns the address of the entry point in the file.
    pub(crate) fn entry(&self) -> usize {
        self.header.e_entry as usize
    }

    /// Returns whether it can be mapped anywhere.
    pub(crate) fn is_relocatable(&self) -> bool {
        self.header.e_type == libc::ET_DYN
    }

    pub(crate) fn loads(&self) -> impl Iterator<Item = &libc::Elf64_Phdr> {
        self.segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD)
    }

    fn segment(&self, kind: u32) -> Option<&libc::Elf64_Phdr> {
        self.segments.iter().find(|segment| segment.p_type == kind)
    }

    pub(crate) fn wants_executable_stack(&self) -> bool {
        self.segment(libc::PT_GNU_STACK).is_none_or(|segment| segment.p_flags & libc::PF_X != 0)
    }

    /// Returns the pages that it occupies when mapped at this base.
    pub(crate) fn range(&self, base: usize) -> Range<usize> {
        let start = self.loads().map(|segment| segment.p_vaddr as usize & !(PAGE - 1)).min().unwrap_or(0);
        let end = self.loads().map(|segment| (segment.p_vaddr + segment.p_memsz) as usize).max().unwrap_or(0);
        base.wrapping_add(start)..base.wrapping_add(end.next_multiple_of(PAGE))
    }

    /// Returns the nearest base at or below `address` that fits the alignment of its segments; 0 for a program
    /// at fixed addresses.
    pub(crate) fn base(&self, address: usize) -> usize {
        let alignment = self.loads().map(|segment| segment.p_align as usize).max().unwrap_or(PAGE).max(PAGE);
        if self.is_relocatable() { address & !(alignment - 1) } else { 0 }
    }

    /// Maps it; returns `None` if there is no room or the file does not match its headers.
    pub(crate) fn map(&self, base: usize) -> Option<LoadedImage> {
        let Range { start, end } = self.range(base);
        // A program at fixed addresses replaces its first load.
        if self.is_relocatable() && !sys::map(start, end - start, libc::PROT_NONE, MapMode::Free) {
            return None;
        }
        self.loads().all(|segment| map_segment(self.fd, segment, base)).then_some(())?;
        let headers = self.loads().find(|segment| {
            (segment.p_offset..segment.p_offset + segment.p_filesz).contains(&self.header.e_phoff)
        })?;
        Some(LoadedImage {
            base,
            entry: base.wrapping_add(self.entry()),
            headers: base.wrapping_add((headers.p_vaddr + self.header.e_phoff - headers.p_offset) as usize),
            end,
        })
    }
}

fn map_segment(fd: i32, segment: &libc::Elf64_Phdr, base: usize) -> bool {
    let start = base.wrapping_add(segment.p_vaddr as usize);
    let (file_end, end) = (start + segment.p_filesz as usize, start + segment.p_memsz as usize);
    let page = start & !(PAGE - 1);
    let protection = protection(segment.p_flags);
    let first_zero_page = file_end.next_multiple_of(PAGE);
    if segment.p_filesz > 0 {
        let offset = segment.p_offset & !(PAGE as u64 - 1);
        if !sys::map_file(page, first_zero_page - page, protection, fd, offset) {
            return false;
        }
        if end > file_end && protection & libc::PROT_WRITE != 0 {
            // SAFETY: the rest of the last page that was just mapped.
            unsafe { core::ptr::write_bytes(file_end as *mut u8, 0, first_zero_page - file_end) };
        }
    }
    let first_zero_page = if segment.p_filesz > 0 { first_zero_page } else { page };
    let end = end.next_multiple_of(PAGE);
    first_zero_page >= end || sys::map(first_zero_page, end - first_zero_page, protection, MapMode::Replace)
}

fn protection(flags: u32) -> i32 {
    let bit = |flag: u32, protection: i32| if flags & flag == 0 { 0 } else { protection };
    bit(libc::PF_R, libc::PROT_READ) | bit(libc::PF_W, libc::PROT_WRITE) | bit(libc::PF_X, libc::PROT_EXEC)
}

/// Reads a header.
fn read<T: Header>(fd: i32, offset: u64) -> Option<T> {
    let mut header = MaybeUninit::<T>::zeroed();
    // SAFETY: the bytes of the header.
    let bytes = unsafe { core::slice::from_raw_parts_mut(header.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
    // SAFETY: plain numbers, of which all values are valid.
    sys::read_at(fd, bytes, offset).then(|| unsafe { header.assume_init() })
}

/// A type of plain numbers without padding.
trait Header {}
impl Header for libc::Elf64_Ehdr {}
impl Header for libc::Elf64_Phdr {}

/// The loader that a program names.
pub(crate) struct Interpreter(Image);

impl Interpreter {
    pub(crate) fn of(program: &Image) -> Option<Self> {
        let segment = program.segment(libc::PT_INTERP)?;
        let mut path = [0; 256];
        let path = path.get_mut(..segment.p_filesz as usize)?;
        if !sys::read_at(program.fd, path, segment.p_offset) || path.last() != Some(&0) {
            return None;
        }
        Image::read(sys::open(path)?).map(Self)
    }

    pub(crate) fn image(&self) -> &Image {
        &self.0
    }

    /// Returns the base at which it ends at or below this address.
    pub(crate) fn base_below(&self, end: usize) -> usize {
        self.0.base(end - self.0.range(0).end)
    }

    pub(crate) fn close(&self) {
        sys::close(self.0.fd);
    }
}
