//! Mappings of runs, which stay mapped for the next run.
//!
//! Thread stacks, signal stacks and arenas are mapped and unmapped in every run, at the same addresses. To
//! unmap them, map them again and fault in their pages would cost more than the rest of a short run. So they
//! stay mapped, and each run sees its calls succeed as the kernel would make them. The kernel chooses the
//! highest address with enough room, so the address depends only on the mappings from there on up. Each
//! placement is remembered from the first time the kernel chose it. For an unknown one, all pieces that this
//! run has not mapped are unmapped first, so that the kernel's answer is right.
//!
//! Pieces that this run has not mapped yet, and small ones and stacks that it has unmapped, are still
//! accessible: a stray access finds zeros or old contents where a fresh process would crash. Larger pieces
//! are really unmapped.
//!
//! All unusual calls are passed to the kernel after the same unmapping; then the mappings are restored by
//! comparison.

use super::{call, memory::PAGE, state};
use crate::{real::Real, stack, sys};

const MAX_PIECES: usize = 512;
const MAX_KNOWN: usize = 1024;
/// Mappings at least this large may be aligned to this size, if there is room below.
const HUGE: usize = 2 << 20;
/// Pieces up to this size, and stacks, are not really unmapped.
const MAX_KEPT_BYTES: usize = 64 << 10;

const NO_ACCESS: usize = libc::PROT_NONE as usize;
const READ_WRITE: usize = (libc::PROT_READ | libc::PROT_WRITE) as usize;

/// Memory that a run mapped.
#[derive(Clone, Copy)]
pub(super) struct MappedPiece {
    pub(super) start: usize,
    pub(super) end: usize,
    /// [`NO_ACCESS`] or [`READ_WRITE`], as in the kernel.
    protection: usize,
    /// True if this run may write it.
    is_open: bool,
    /// True if this run has mapped it.
    is_mapped: bool,
    /// True if this run has unmapped it: its contents are void.
    is_stale: bool,
    is_stack: bool,
    /// Its protection before the run, if it existed.
    protection_before: Option<usize>,
}

impl MappedPiece {
    pub(super) fn is_writable(&self) -> bool {
        self.protection == READ_WRITE
    }
}

/// An address at which the kernel placed a mapping.
#[derive(Clone, Copy)]
struct KnownPlacement {
    /// A hash of the request.
    request: u64,
    at: usize,
    /// A hash of the run's relevant changes to mappings.
    within: u64,
}

/// The mappings of the runs; initially zeros.
#[repr(C)]
pub(super) struct MappingLayout {
    /// Sorted by address.
    pieces: [MappedPiece; MAX_PIECES],
    count: usize,
    known: [KnownPlacement; MAX_KNOWN],
    known_count: usize,
    /// True if calls are passed to the kernel for the rest of this run.
    is_passed_on: bool,
    /// True if memory from before the run may have been discarded without a page fault.
    pub(super) is_emptied: bool,
}

/// The redirected calls.
#[derive(Clone, Copy)]
enum MappingRequest {
    Map { flags: usize, file: usize, offset: usize },
    Unmap,
    Protect,
    Advise,
    Remap { size: usize, flags: usize, to: usize },
}

impl MappingLayout {
    pub(super) fn pieces(&self) -> &[MappedPiece] {
        &self.pieces[..self.count]
    }

    /// Passes all further calls to the kernel.
    pub(super) fn disable(&mut self) {
        self.is_passed_on = true;
    }

    /// Prepares for the next run; returns true if all mappings are accounted for. Reports the pieces that are
    /// removed to `report_unmapped`.
    pub(super) fn reset(&mut self, mut report_unmapped: impl FnMut(usize, usize)) -> bool {
        let is_known = !self.is_passed_on;
        (self.is_passed_on, self.is_emptied) = (false, false);
        if !is_known {
            self.count = 0;
            return false;
        }
        let mut at = 0;
        while at < self.count {
            let piece = &mut self.pieces[at];
            if let Some(protection) = piece.protection_before {
                if protection == NO_ACCESS && (piece.is_writable() || piece.is_stale) {
                    // Memory that could not be written was empty.
                    advise(piece.start, piece.end - piece.start, libc::MADV_DONTNEED as usize);
                }
                if piece.protection != protection {
                    protect(piece.start, piece.end, protection);
                }
                self.remove(at);
            } else if !piece.is_writable() && piece.is_stale {
                // It was written before it was protected.
                let piece = *piece;
                unmap(piece.start, piece.end);
                report_unmapped(piece.start, piece.end);
                self.remove(at);
            } else {
                (piece.is_mapped, piece.is_stale, piece.is_open) = (false, false, false);
                at += 1;
            }
        }
        true
    }

    /// Emulates a call that the program or a library makes.
    fn emulate(&mut self, request: MappingRequest, addr: usize, size: usize, how: usize) -> isize {
        let whole = size.wrapping_add(PAGE - 1) & !(PAGE - 1);
        let end = addr.wrapping_add(whole);
        let usual = !self.is_passed_on && addr.is_multiple_of(PAGE) && addr <= end && size > 0;
        if usual {
            let done = match request {
                MappingRequest::Map { flags, .. } => self.map(addr, whole, how, flags),
                MappingRequest::Unmap => self.unmap(addr, end),
                MappingRequest::Protect => self.protect(addr, end, how),
                MappingRequest::Advise if is_transient_advice(how) => {
                    self.is_emptied = true;
                    Some(advise(addr, size, how))
                }
                MappingRequest::Advise | MappingRequest::Remap { .. } => None,
            };
            if let Some(result) = done {
                return result;
            }
        }
        if !self.is_passed_on {
            self.unmap_unused();
            self.is_passed_on = true;
        }
        let own = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: only this thread accesses it.
        let memory = unsafe { &(*state()).memory };
        let can_be_undone = match request {
            MappingRequest::Map { flags, .. } => flags & own == own && flags & libc::MAP_FIXED as usize == 0,
            MappingRequest::Protect => how & libc::PROT_WRITE as usize == 0 || !memory.is_constant(addr, end),
            MappingRequest::Advise => is_transient_advice(how),
            MappingRequest::Unmap | MappingRequest::Remap { .. } => true,
        };
        if !can_be_undone {
            super::abort_rewind();
        }
        let (number, args) = match request {
            MappingRequest::Map { flags, file, offset } => {
                (libc::SYS_mmap, [addr, size, how, flags, file, offset])
            }
            MappingRequest::Unmap => (libc::SYS_munmap, [addr, size, 0, 0, 0, 0]),
            MappingRequest::Protect => (libc::SYS_mprotect, [addr, size, how, 0, 0, 0]),
            MappingRequest::Advise => (libc::SYS_madvise, [addr, size, how, 0, 0, 0]),
            MappingRequest::Remap { size: new, flags, to } => {
                (libc::SYS_mremap, [addr, size, new, flags, to, 0])
            }
        };
        // SAFETY: the program's call.
        unsafe { call(number, args) }
    }

    /// Maps memory, at `hint` if there is room.
    fn map(&mut self, hint: usize, size: usize, protection: usize, flags: usize) -> Option<isize> {
        const OWN: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        const HARMLESS_FLAGS: i32 = libc::MAP_STACK | libc::MAP_NORESERVE;
        let usual =
            flags as i32 & !HARMLESS_FLAGS == OWN && (protection == NO_ACCESS || protection == READ_WRITE);
        if !usual || self.count + 8 > MAX_PIECES {
            return None;
        }
        let is_stack = flags & libc::MAP_STACK as usize != 0;
        let how = (flags << 48 ^ protection << 40) as u64;
        let request = mix_bits(mix_bits(size as u64 ^ how) ^ mix_bits(hint as u64).rotate_left(1));
        if let Some(at) = self.known_placement(request, hint, size) {
            if self.claim(at, at + size, protection, is_stack).is_none() {
                super::abort_rewind();
            }
            return Some(at as isize);
        }
        self.unmap_unused();
        // SAFETY: a new mapping at a free address.
        let at = unsafe { call(libc::SYS_mmap, [hint, size, protection, flags, usize::MAX, 0]) };
        if at >= 0 {
            let start = at as usize;
            if !self.is_passed_on {
                self.remember(request, hint, size, start);
            }
            let is_open = protection == READ_WRITE;
            let end = start + size;
            self.insert(MappedPiece { start, end, protection, is_open, is_mapped: true, is_stack, ..EMPTY });
        }
        Some(at)
    }

    /// Returns where the kernel would place this mapping now, if it placed one in the same situation before.
    fn known_placement(&self, request: u64, hint: usize, size: usize) -> Option<usize> {
        let mut alike = self.known[..self.known_count].iter().filter(|known| known.request == request);
        let is_here = |known: &&KnownPlacement| {
            let (from, to) = relevant_range(known.at, hint, size);
            self.changes_between(from, to) == known.within
        };
        alike.find(is_here).map(|known| known.at)
    }

    fn remember(&mut self, request: u64, hint: usize, size: usize, at: usize) {
        if self.known_count == MAX_KNOWN {
            self.known_count = 0;
        }
        let (from, to) = relevant_range(at, hint, size);
        self.known[self.known_count] = KnownPlacement { request, at, within: self.changes_between(from, to) };
        self.known_count += 1;
    }

    /// Returns the ranges that this run has mapped or unmapped.
    fn changes(&self) -> impl Iterator<Item = (usize, usize)> {
        let changed = |piece: &&MappedPiece| piece.is_mapped != piece.protection_before.is_some();
        self.pieces().iter().filter(changed).map(|piece| (piece.start, piece.end))
    }

    /// Returns a hash of the bounds of all changes between two addresses.
    fn changes_between(&self, from: usize, to: usize) -> u64 {
        self.changes().filter(|&(start, end)| start < to && from < end).fold(0, |hash, (start, end)| {
            hash ^ mix_bits(start.max(from) as u64) ^ mix_bits(end.min(to) as u64)
        })
    }

    fn unmap(&mut self, start: usize, end: usize) -> Option<isize> {
        if self.count + 8 > MAX_PIECES {
            return None;
        }
        if let Some((first, last)) = self.mapped(start, end) {
            let mut at = last;
            while at > first {
                at -= 1;
                let piece = &mut self.pieces[at];
                let is_small = piece.is_stack || !piece.is_open || piece.end - piece.start <= MAX_KEPT_BYTES;
                if is_small {
                    piece.is_mapped = false;
                    piece.is_stale |= piece.is_open;
                } else {
                    let piece = *piece;
                    unmap(piece.start, piece.end);
                    // SAFETY: only this thread accesses it.
                    unsafe { (*state()).memory.forget(piece.start, piece.end) };
                    self.remove(at);
                }
            }
            return Some(0);
        }
        let is_free = self.pieces().iter().all(|piece| piece.end <= start || end <= piece.start);
        if end - start > MAX_KEPT_BYTES || !is_free {
            return None;
        }
        let (mut parts, mut count, mut from) = ([EMPTY; 4], 0, start);
        while from < end {
            // SAFETY: only this thread accesses it.
            let (until, is_writable) = unsafe { (*state()).memory.saved_part(from, end)? };
            let protection = if is_writable { READ_WRITE } else { NO_ACCESS };
            let protection_before = Some(protection);
            *parts.get_mut(count)? = MappedPiece {
                start: from,
                end: until,
                protection,
                is_stale: is_writable,
                protection_before,
                ..EMPTY
            };
            (count, from) = (count + 1, until);
        }
        parts[..count].iter().for_each(|&part| self.insert(part));
        Some(0)
    }

    fn protect(&mut self, start: usize, end: usize, protection: usize) -> Option<isize> {
        if (protection != NO_ACCESS && protection != READ_WRITE) || self.count + 8 > MAX_PIECES {
            return None;
        }
        let (first, last) = self.mapped(start, end)?;
        self.pieces[first..last].iter_mut().for_each(|piece| set_protection(piece, protection));
        if protection == READ_WRITE {
            // A closed neighbour is a guard of this run, which an earlier run may have opened.
            for nth in [first.wrapping_sub(1), last].into_iter().filter(|&nth| nth < self.count) {
                let piece = &mut self.pieces[nth];
                if piece.is_mapped && !piece.is_open && (piece.end == start || piece.start == end) {
                    set_protection(piece, NO_ACCESS);
                }
            }
        }
        Some(0)
    }

    /// Maps these bytes, reusing the pieces of other runs there.
    fn claim(&mut self, start: usize, end: usize, protection: usize, is_stack: bool) -> Option<()> {
        self.split(start);
        self.split(end);
        let is_open = protection == READ_WRITE;
        let mut from = start;
        let mut at = self.pieces().iter().position(|piece| piece.end > start).unwrap_or(self.count);
        while from < end {
            let next = self.pieces().get(at).copied().filter(|piece| piece.start < end);
            match next {
                Some(piece) if piece.start == from => {
                    if piece.is_mapped {
                        return None;
                    }
                    if is_open && !piece.is_writable() {
                        protect(piece.start, piece.end, READ_WRITE);
                    }
                    let piece = &mut self.pieces[at];
                    if is_open {
                        piece.protection = READ_WRITE;
                    }
                    if piece.is_stale {
                        clear(piece);
                        if !piece.is_writable() {
                            // SAFETY: only this thread accesses it.
                            unsafe { (*state()).memory.forget(piece.start, piece.end) };
                        }
                    }
                    (piece.is_mapped, piece.is_stale, piece.is_stack, piece.is_open) =
                        (true, false, is_stack, is_open);
                    from = piece.end;
                }
                _ => {
                    let until = next.map_or(end, |piece| piece.start);
                    let flags = libc::MAP_PRIVATE
                        | libc::MAP_ANONYMOUS
                        | libc::MAP_NORESERVE
                        | libc::MAP_FIXED_NOREPLACE;
                    let args = [from, until - from, protection, flags as usize, usize::MAX, 0];
                    // SAFETY: a new mapping at a free address.
                    if unsafe { call(libc::SYS_mmap, args) } != from as isize {
                        return None;
                    }
                    let piece = MappedPiece { start: from, end: until, protection, is_open, ..EMPTY };
                    self.insert(MappedPiece { is_mapped: true, is_stack, ..piece });
                    from = until;
                }
            }
            at += 1;
        }
        Some(())
    }

    /// Unmaps the pieces that this run has not mapped, or has unmapped.
    fn unmap_unused(&mut self) {
        let mut at = 0;
        while at < self.count {
            let piece = self.pieces[at];
            if piece.is_mapped {
                at += 1;
                continue;
            }
            unmap(piece.start, piece.end);
            if piece.protection_before.is_some() {
                // It has to be mapped again after the run.
                self.is_passed_on = true;
            } else {
                // SAFETY: only this thread accesses it.
                unsafe { (*state()).memory.forget(piece.start, piece.end) };
            }
            self.remove(at);
        }
    }

    /// Returns the pieces that make up these bytes, if this run has mapped all of them.
    fn mapped(&mut self, start: usize, end: usize) -> Option<(usize, usize)> {
        let first = self.pieces().iter().position(|piece| piece.end > start)?;
        let mut until = start;
        let covers = |piece: &&MappedPiece| {
            let goes_on = until < end && piece.start <= until && piece.is_mapped;
            until = if goes_on { piece.end } else { until };
            goes_on
        };
        self.pieces[first..self.count].iter().take_while(covers).count();
        if until < end {
            return None;
        }
        self.split(start);
        self.split(end);
        let first = self.pieces().iter().position(|piece| piece.end > start)?;
        let last = self.pieces().iter().position(|piece| piece.start >= end).unwrap_or(self.count);
        Some((first, last))
    }

    /// Splits the piece that contains this address.
    fn split(&mut self, at: usize) {
        let Some(nth) = self.pieces().iter().position(|piece| piece.start < at && at < piece.end) else {
            return;
        };
        let piece = self.pieces[nth];
        self.pieces[nth].end = at;
        self.insert(MappedPiece { start: at, ..piece });
    }

    fn insert(&mut self, piece: MappedPiece) {
        if self.count == MAX_PIECES {
            super::abort_rewind();
        }
        let at = self.pieces().iter().position(|other| other.start > piece.start).unwrap_or(self.count);
        for nth in (at..self.count).rev() {
            self.pieces[nth + 1] = self.pieces[nth];
        }
        self.pieces[at] = piece;
        self.count += 1;
    }

    fn remove(&mut self, at: usize) {
        self.count -= 1;
        for nth in at..self.count {
            self.pieces[nth] = self.pieces[nth + 1];
        }
    }
}

/// Returns the range whose mappings determine this placement: the kernel searches for room from the top. A
/// mapping that was placed at its hint depends only on the room there.
fn relevant_range(at: usize, hint: usize, size: usize) -> (usize, usize) {
    if at == hint {
        return (at, at + size);
    }
    let lowest = if hint == 0 { at } else { at.min(hint) };
    (if size < HUGE { lowest } else { lowest.saturating_sub(HUGE) }, usize::MAX)
}

const EMPTY: MappedPiece = MappedPiece {
    start: 0,
    end: 0,
    protection: NO_ACCESS,
    is_open: false,
    is_mapped: false,
    is_stale: false,
    is_stack: false,
    protection_before: None,
};

fn mix_bits(value: u64) -> u64 {
    let mixed = (value ^ value >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
}

fn unmap(start: usize, end: usize) {
    // SAFETY: it is no longer used.
    unsafe { call(libc::SYS_munmap, [start, end - start, 0, 0, 0, 0]) };
}

fn protect(start: usize, end: usize, protection: usize) {
    // SAFETY: the program asked for it.
    unsafe { call(libc::SYS_mprotect, [start, end - start, protection, 0, 0, 0]) };
}

fn advise(addr: usize, size: usize, advice: usize) -> isize {
    // SAFETY: the program asked for it.
    unsafe { call(libc::SYS_madvise, [addr, size, advice, 0, 0, 0]) }
}

/// Returns whether this advice takes effect at once and changes no later behaviour of the kernel.
fn is_transient_advice(advice: usize) -> bool {
    const TRANSIENT: [i32; 4] =
        [libc::MADV_DONTNEED, libc::MADV_WILLNEED, libc::MADV_POPULATE_READ, libc::MADV_POPULATE_WRITE];
    TRANSIENT.contains(&(advice as i32))
}

fn set_protection(piece: &mut MappedPiece, protection: usize) {
    piece.is_open = protection == READ_WRITE;
    if piece.protection != protection {
        protect(piece.start, piece.end, protection);
        piece.protection = protection;
        // SAFETY: only this thread accesses it. Its contents, if any, cannot be discarded any more.
        piece.is_stale =
            protection == NO_ACCESS && unsafe { (*state()).memory.may_hold_data(piece.start, piece.end) };
    }
}

/// Clears a piece.
fn clear(piece: &MappedPiece) {
    if !piece.is_writable() || piece.end - piece.start > MAX_KEPT_BYTES {
        advise(piece.start, piece.end - piece.start, libc::MADV_DONTNEED as usize);
    } else {
        (piece.start..piece.end).step_by(PAGE).for_each(|page| super::memory::fill_page(page, 0));
    }
}

/// Redirects the C library's functions to this module; returns false if that is not possible.
pub(super) fn install_redirects(redirect: impl Fn(&Real, usize) -> bool) -> bool {
    static MMAP: Real = Real::new(c"mmap");
    static MUNMAP: Real = Real::new(c"munmap");
    static MPROTECT: Real = Real::new(c"mprotect");
    static MADVISE: Real = Real::new(c"madvise");
    static MREMAP: Real = Real::new(c"mremap");
    redirect(&MMAP, mmap as *const () as usize)
        && redirect(&MUNMAP, munmap as *const () as usize)
        && redirect(&MPROTECT, mprotect as *const () as usize)
        && redirect(&MADVISE, madvise as *const () as usize)
        && redirect(&MREMAP, mremap as *const () as usize)
}

/// Emulates the call on another stack: the program finds its own as the kernel would leave it.
fn emulate_call(request: MappingRequest, addr: usize, size: usize, how: usize) -> isize {
    struct Call(MappingRequest, [usize; 3], isize);
    unsafe extern "C" fn make(call: *mut u8) {
        // SAFETY: the pointer is the call passed below; only the running thread accesses the state.
        unsafe {
            let Call(request, [addr, size, how], result) = &mut *call.cast::<Call>();
            *result = (*state()).layout.emulate(*request, *addr, *size, *how);
        }
    }
    let mut call = Call(request, [addr, size, how], 0);
    // SAFETY: no other code uses that stack.
    unsafe { stack::call_on((&raw mut call).cast(), make, super::TOP) };
    if call.2 < 0 {
        sys::set_errno(-call.2 as i32);
        return -1;
    }
    call.2
}

unsafe extern "C" fn mmap(
    addr: usize,
    size: usize,
    protection: usize,
    flags: usize,
    file: usize,
    offset: usize,
) -> isize {
    emulate_call(
        MappingRequest::Map { flags: flags & 0xffff_ffff, file, offset },
        addr,
        size,
        protection & 0xffff_ffff,
    )
}

unsafe extern "C" fn munmap(addr: usize, size: usize) -> isize {
    emulate_call(MappingRequest::Unmap, addr, size, 0)
}

unsafe extern "C" fn mprotect(addr: usize, size: usize, protection: usize) -> isize {
    emulate_call(MappingRequest::Protect, addr, size, protection & 0xffff_ffff)
}

unsafe extern "C" fn madvise(addr: usize, size: usize, advice: usize) -> isize {
    emulate_call(MappingRequest::Advise, addr, size, advice & 0xffff_ffff)
}

unsafe extern "C" fn mremap(addr: usize, size: usize, new: usize, flags: usize, to: usize) -> isize {
    emulate_call(MappingRequest::Remap { size: new, flags, to }, addr, size, 0)
}
