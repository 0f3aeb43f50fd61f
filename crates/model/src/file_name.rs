//! Names of files, as events have them.

use crate::op::numbered;

numbered! {
    /// The call by which a file was used.
    FileCall {
        /// Its data are read or written at a given position, or its attributes are set.
        Transfer = "transfer",
        /// Its data are read or written at the position of the descriptor, or that is set.
        Position = "transfer at the position",
        /// The position of the descriptor is set.
        Seek = "seek",
        /// It is opened.
        Open = "open",
        /// Its existence, permissions or attributes are queried.
        Query = "look up",
        /// A directory is made or removed.
        Directory = "directory",
    }
}

/// A file, by its absolute path and by the path of its directory. Both are hashes, so that a file has the same name in
/// every run. The encoding differs from every memory address, so it can be used in place of one.
///
/// Two files with the same hash only depend on each other without need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileName {
    /// The hash of the path.
    pub file: u32,
    /// The hash of the path of its directory; 0 for the root.
    pub directory: u32,
}

/// Beyond all addresses of a program, and of channels.
const MARK: u64 = 0xfe << 56;
const BITS: u32 = 28;
const MASK: u32 = (1 << BITS) - 1;

impl FileName {
    /// Returns the name of a file, given its absolute path without `.`, `..` and superfluous slashes.
    #[must_use]
    pub fn of(path: &[u8]) -> Self {
        let end = path.iter().rposition(|&byte| byte == b'/');
        let directory = match end {
            None | Some(0) if path.len() <= 1 => 0,
            None | Some(0) => hash(b"/"),
            Some(end) => hash(&path[..end]),
        };
        Self { file: hash(path), directory }
    }

    /// Encodes the name in place of an address.
    #[must_use]
    pub const fn as_addr(self) -> u64 {
        MARK | (self.directory as u64) << BITS | self.file as u64
    }

    /// Decodes a name; returns `None` for addresses in memory.
    #[must_use]
    pub const fn from_addr(addr: u64) -> Option<Self> {
        let name = Self { file: addr as u32 & MASK, directory: (addr >> BITS) as u32 & MASK };
        if name.as_addr() == addr { Some(name) } else { None }
    }

    /// Returns the object that stands for the file, whatever its directory.
    #[must_use]
    pub const fn object(self) -> u64 {
        MARK | self.file as u64
    }

    /// Returns the object that stands for the directory of the file.
    #[must_use]
    pub const fn directory_object(self) -> u64 {
        MARK | self.directory as u64
    }

    /// Encodes the second file of an operation: its hash in `size`, and the hash of its directory above the error
    /// number in `value`.
    #[must_use]
    pub const fn encode_other(self, error: u64) -> (u64, u64) {
        (self.file as u64, (self.directory as u64) << 32 | (error & 0xffff_ffff))
    }

    /// Decodes the second file of an operation, and the error number.
    #[must_use]
    pub const fn other(size: u64, value: u64) -> (Self, u64) {
        (Self { file: size as u32 & MASK, directory: (value >> 32) as u32 & MASK }, value & 0xffff_ffff)
    }
}

/// FNV-1a, folded.
fn hash(path: &[u8]) -> u32 {
    let hash = path.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let folded = (hash ^ hash >> BITS ^ hash >> (2 * BITS)) as u32 & MASK;
    // 0 stands for no directory.
    if folded == 0 { 1 } else { folded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_know_their_directory() {
        let [root, tmp, file] = [&b"/"[..], b"/tmp", b"/tmp/a.txt"].map(FileName::of);
        assert_eq!((root.directory, tmp.directory, file.directory), (0, root.file, tmp.file));
        assert_ne!(tmp.file, file.file);
        assert_eq!(FileName::from_addr(file.as_addr()), Some(file));
        assert_eq!(FileName::from_addr(0x7fff_f7a0_1000), None);
        assert_eq!(file.directory_object(), tmp.object());
        let (size, value) = tmp.encode_other(17);
        assert_eq!(FileName::other(size, value), (tmp, 17));
    }
}
