//! The layout of the address space.
//!
//! The race detector's shadow memory distinguishes parts of the address space by two bits (`is_watched` in
//! the runtime), and these addresses are within the parts that it knows. The runtime's memory lies between
//! them.

/// The base of position-independent programs. The kernel places them higher (`ELF_ET_DYN_BASE`), so nothing
/// is here.
pub(crate) const PROGRAM: usize = 0x5500_0000_0000;

/// The end of the stack; libraries and mappings follow below it. The kernel's search for room starts at a random address that is
/// at least this, also with 32 random bits (`vm.mmap_rnd_bits`).
pub(crate) const TOP: usize = 0x6f80_0000_0000;

/// The end of the addresses that programs may use.
pub(crate) const CEILING: usize = 0x7fff_ffff_f000;

/// The inaccessible range below the stack, so that an overflow crashes.
pub(crate) const GUARD: usize = 1 << 20;

/// The page with the last instructions of the first load.
pub(crate) const TRAMPOLINE: usize = 0x5f00_0000_0000;

/// The maximum random distance at which the kernel puts the heap behind the program.
pub(crate) const MAX_HEAP_DISTANCE: usize = 2 << 30;
