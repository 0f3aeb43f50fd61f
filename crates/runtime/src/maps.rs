//! The process's mappings, as the kernel lists them.

use crate::{files::OpenFile, sys};
use alloc::vec::Vec;

/// A line of `/proc/self/maps`: `from-to rw-s offset device inode path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// `r`, `w`, `x`, and `s` for shared or `p` for private.
    pub(crate) rights: [u8; 4],
    /// True if it maps a file.
    pub(crate) file: bool,
}

impl Mapping {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|&byte| byte == b' ');
        let digit = |byte: &u8| (*byte as char).to_digit(16);
        let number =
            |text: &[u8]| text.iter().try_fold(0, |number, byte| Some(number << 4 | digit(byte)? as usize));
        let mut ends = words.next()?.split(|&byte| byte == b'-').map(number);
        let (start, end) = (ends.next()??, ends.next()??);
        let rights = words.next()?.try_into().ok()?;
        let file = words.nth(2)?.iter().any(|&byte| byte != b'0');
        Some(Self { start, end, rights, file })
    }

    /// Returns whether it is private and writable.
    pub(crate) fn is_own(&self) -> bool {
        self.rights[1] == b'w' && self.rights[3] == b'p'
    }

    /// Returns whether it is writable memory shared with other processes, except the controller's.
    pub(crate) fn is_shared(self) -> bool {
        self.rights[1] == b'w' && self.rights[3] == b's' && self.start != sys::LOG_MEMORY
    }

    /// Returns whether it is code or constants of a file.
    fn is_constant(&self) -> bool {
        self.file && self.rights[0] == b'r' && self.rights[1] == b'-' && self.rights[3] == b'p'
    }
}

/// Parses the kernel's list.
pub(crate) fn parse(list: &[u8]) -> impl Iterator<Item = Mapping> {
    list.split(|&byte| byte == b'\n').filter_map(Mapping::parse)
}

/// Returns all mappings, if the system lists them.
pub(crate) fn all() -> Option<Vec<Mapping>> {
    let maps = OpenFile::new(b"/proc/self/maps\0")?;
    let mut list = Vec::new();
    let mut room = alloc::vec![0u8; 32 << 10];
    while let got @ 1.. = maps.read(&mut room) {
        list.extend_from_slice(&room[..got as usize]);
    }
    Some(parse(&list).collect())
}

/// Returns whether there is writable shared memory besides the controller's; `None` if the system does not
/// list mappings.
pub(crate) fn has_shared_memory() -> Option<bool> {
    all().map(|all| all.into_iter().any(Mapping::is_shared))
}

/// Makes forks inherit the page tables of code and constants.
///
/// A forking kernel leaves the page tables of a file mapping to page faults, unless some page of it is
/// private to the process. So one page of each is made private, by rewriting one byte with its value: that
/// saves two in five page faults of a short run. If the system does not allow it, nothing changes.
pub(crate) fn copy_page_tables_on_fork() {
    let Some(memory) = OpenFile::for_writing(b"/proc/self/mem\0") else { return };
    for Mapping { start, .. } in all().into_iter().flatten().filter(|mapping| mapping.is_constant()) {
        // Read through the kernel as well: a mapping beyond the end of its file cannot be read.
        let mut byte = [0];
        if memory.read_at(start, &mut byte) == 1 {
            memory.write_at(start, &byte);
        }
    }
}
