//! The saved memory and how it is restored.
//!
//! The contents of each page are copied once. The kernel knows which pages a run has written: a fork shares
//! its pages with its parent until one of them writes, and `/proc/self/pagemap` shows which pages are
//! exclusive. Those pages are restored after each run from then on, because most runs write the same ones.
//! Mappings are compared with the saved ones: new, removed and reprotected ones are undone.

use super::{call, layout::MappingLayout};
use crate::{
    maps::{self, Mapping},
    shadow, sys,
};
use core::{arch::asm, mem::MaybeUninit};

pub(super) const PAGE: usize = 4096;
/// The maximum number of saved pages.
const MAX_PAGES: usize = 16 << 10;
/// The maximum number of written pages; a run that writes more is better made by a fork.
const MAX_WRITTEN: usize = 4 << 10;
const TABLE_SIZE: usize = 4 * MAX_WRITTEN;
const MAX_MAPPINGS: usize = 1024;
const LIST_BYTES: usize = 256 << 10;

/// A mapping as it was saved.
#[derive(Clone, Copy)]
struct SavedMapping {
    mapping: Mapping,
    contents: Contents,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// Cannot change, or does not belong to the run.
    Constant,
    /// Empty: nothing was written yet.
    Nothing,
    /// Its pages are saved, from this index on.
    Pages(u32),
}

/// A page that runs write.
#[derive(Clone, Copy)]
struct WrittenPage {
    at: usize,
    /// The address of its saved copy; 0 for zeros.
    copy: usize,
}

/// The saved memory; initially zeros.
#[repr(C)]
pub(super) struct SavedMemory {
    maps: usize,
    pagemap: usize,
    is_saved: bool,
    /// The saved end of the heap.
    heap_end: usize,
    /// The lowest address of the first thread's stack, and how far it may have grown down from there.
    stack: [usize; 2],
    mappings: [SavedMapping; MAX_MAPPINGS],
    mapping_count: usize,
    /// For each page the number of its copy, from 1, and whether it differed from the file.
    pages: [u32; MAX_PAGES],
    page_count: usize,
    written: [WrittenPage; MAX_WRITTEN],
    written_count: usize,
    /// A hash table of the written pages.
    written_at: [usize; TABLE_SIZE],
    /// The number of page faults up to the end of the last run.
    faults: usize,
    /// The ends of the runtime's heaps.
    own_heap_ends: [usize; 2],
    /// Saved pages of the race detector's shadow memory, which are kept separately.
    shadow: [WrittenPage; MAX_WRITTEN],
    shadow_count: usize,
    list: [u8; LIST_BYTES],
    copies: [[u8; PAGE]; MAX_PAGES],
    copy_count: usize,
}

const CHANGED: u32 = 1 << 31;

/// A page's entry in `/proc/self/pagemap`.
#[derive(Clone, Copy)]
struct Page(u64);

impl Page {
    const fn is_present(self) -> bool {
        self.0 >> 63 != 0
    }

    /// Returns whether the page is swapped out. A guard, which newer kernels can place where there is no page,
    /// looks like a swapped page and is excluded.
    const fn is_swapped(self) -> bool {
        self.0 >> 62 & 1 != 0 && self.0 >> 58 & 1 == 0
    }

    const fn is_of_file(self) -> bool {
        self.0 >> 61 & 1 != 0
    }

    /// Returns whether no other process shares it.
    const fn is_exclusive(self) -> bool {
        self.0 >> 56 & 1 != 0
    }

    /// Returns whether it holds data that is in no file.
    const fn is_changed(self) -> bool {
        self.is_swapped() || self.is_present() && !self.is_of_file()
    }

    /// Returns whether it was written since the fork.
    const fn is_written(self) -> bool {
        self.is_swapped() || self.is_present() && !self.is_of_file() && self.is_exclusive()
    }
}

impl SavedMemory {
    /// Opens the files needed later; returns false if the system does not allow it.
    pub(super) fn prepare(&mut self) -> bool {
        let open = |path: &[u8]| {
            let args = [libc::AT_FDCWD as usize, path.as_ptr() as usize, libc::O_CLOEXEC as usize, 0, 0, 0];
            // SAFETY: the path is zero-terminated.
            unsafe { sys::call(libc::SYS_openat, args) }
        };
        let (maps, pagemap) = (open(b"/proc/self/maps\0"), open(b"/proc/self/pagemap\0"));
        (self.maps, self.pagemap) = (maps as usize, pagemap as usize);
        maps >= 0 && pagemap >= 0
    }

    pub(super) fn is_saved(&self) -> bool {
        self.is_saved
    }

    /// Saves the current memory; `stack` is an address in the first thread's stack.
    pub(super) fn save(&mut self, shadow: &[usize], stack: usize) {
        self.is_saved =
            self.save_mappings().is_some() && self.save_shadow(shadow).is_some() && self.detects_writes();
        self.heap_end = heap_end(0);
        self.own_heap_ends = sys::own_heap_ends();
        /// No more is certainly free below the stack; it may not grow further either, unless its limit was
        /// raised.
        const MAX_GROWTH: usize = 64 << 20;
        let mut below = 0;
        for SavedMapping { mapping, .. } in &self.mappings[..self.mapping_count] {
            if (mapping.start..=mapping.end).contains(&stack) {
                self.stack = [mapping.start, below.max(mapping.start.saturating_sub(MAX_GROWTH))];
                break;
            }
            below = mapping.end;
        }
    }

    /// Returns the number of pages that saving costs.
    pub(super) fn pages(&self) -> usize {
        self.copy_count + self.written_count
    }

    /// Returns whether some of these bytes cannot be restored.
    pub(super) fn is_constant(&self, start: usize, end: usize) -> bool {
        self.mappings[..self.mapping_count].iter().any(|SavedMapping { mapping, contents }| {
            *contents == Contents::Constant && start < mapping.end && mapping.start < end
        })
    }

    /// Returns the end of the next part of these bytes that was mapped, and whether it was writable; `None`
    /// if it was not private memory.
    pub(super) fn saved_part(&self, start: usize, end: usize) -> Option<(usize, bool)> {
        let mappings = &self.mappings[..self.mapping_count];
        let SavedMapping { mapping, contents } = mappings.iter().find(|saved| start < saved.mapping.end)?;
        let is_own = mapping.start <= start && !mapping.file && *contents != Contents::Constant;
        is_own.then_some((mapping.end.min(end), *contents != Contents::Nothing))
    }

    /// Returns whether these bytes may have contents.
    pub(super) fn may_hold_data(&self, start: usize, end: usize) -> bool {
        const MAX_PAGES_CHECKED: usize = 16;
        let mapping = Mapping { start, end, rights: *b"---p", file: false };
        let is_known = self.written[..self.written_count].iter().any(|page| (start..end).contains(&page.at));
        (end - start) / PAGE > MAX_PAGES_CHECKED || is_known || !self.is_empty(&mapping)
    }

    /// Forgets written pages in these bytes, which are unmapped.
    pub(super) fn forget(&mut self, start: usize, end: usize) {
        self.retain_written(|_, at| !(start..end).contains(&at));
    }

    /// Forgets written pages outside the saved mappings, which are unmapped.
    fn forget_unsaved(&mut self) {
        self.retain_written(|saved, at| {
            saved.iter().any(|saved| (saved.mapping.start..saved.mapping.end).contains(&at))
        });
    }

    fn retain_written(&mut self, keeps: impl Fn(&[SavedMapping], usize) -> bool) {
        let Self { mappings, mapping_count, written, written_count, written_at, .. } = self;
        let before = *written_count;
        *written_count = 0;
        for nth in 0..before {
            if keeps(&mappings[..*mapping_count], written[nth].at) {
                written[*written_count] = written[nth];
                *written_count += 1;
            }
        }
        if *written_count < before {
            written_at.fill(0);
            for page in &written[..*written_count] {
                insert_page(written_at, page.at);
            }
        }
    }

    fn save_mappings(&mut self) -> Option<()> {
        let list = read_list(self.maps, &mut self.list)?;
        for mapping in maps::parse(&self.list[..list]) {
            *self.mappings.get_mut(self.mapping_count)? =
                SavedMapping { mapping, contents: Contents::Constant };
            self.mapping_count += 1;
        }
        for at in 0..self.mapping_count {
            let mapping = self.mappings[at].mapping;
            self.mappings[at].contents = if is_saved_elsewhere(&mapping) {
                Contents::Constant
            } else if mapping.is_own() {
                let first = self.page_count as u32;
                self.save_pages(&mapping)?;
                Contents::Pages(first)
            } else if &mapping.rights == b"---p" && !mapping.file && self.is_empty(&mapping) {
                Contents::Nothing
            } else {
                Contents::Constant
            };
        }
        Some(())
    }

    fn save_pages(&mut self, mapping: &Mapping) -> Option<()> {
        let pagemap = self.pagemap;
        each_page(pagemap, mapping, |_, at, page| {
            let known = self.pages.get_mut(self.page_count)?;
            self.page_count += 1;
            if page.is_changed() || mapping.file {
                let copy = self.copies.get_mut(self.copy_count)?;
                if page.is_present() {
                    copy_page(at, copy.as_mut_ptr() as usize);
                } else if !read_page(at, copy) {
                    // Beyond the end of the file.
                    return if page.is_changed() { None } else { Some(()) };
                }
                self.copy_count += 1;
                *known = self.copy_count as u32 | if page.is_changed() { CHANGED } else { 0 };
            }
            Some(())
        })
    }

    fn is_empty(&self, mapping: &Mapping) -> bool {
        (mapping.end - mapping.start) / PAGE <= 4 * MAX_PAGES
            && each_page(self.pagemap, mapping, |_, _, page| (page.0 >> 62 == 0).then_some(())).is_some()
    }

    fn save_shadow(&mut self, used: &[usize]) -> Option<()> {
        for &at in used {
            let copy = self.copies.get_mut(self.copy_count)?.as_mut_ptr() as usize;
            self.copy_count += 1;
            copy_page(at, copy);
            *self.shadow.get_mut(self.shadow_count)? = WrittenPage { at, copy };
            self.shadow_count += 1;
        }
        Some(())
    }

    /// Returns whether the kernel distinguishes written pages: a page written just now must be exclusive, and
    /// some unwritten page must not.
    fn detects_writes(&self) -> bool {
        let page_of = |at: usize| {
            let mapping = Mapping {
                start: at & !(PAGE - 1),
                end: (at & !(PAGE - 1)) + PAGE,
                rights: *b"rw-p",
                file: false,
            };
            let mut info = None;
            let _ = each_page(self.pagemap, &mapping, |_, _, page| {
                info = Some(page);
                Some(())
            });
            info
        };
        let here = page_of((&raw const self.is_saved) as usize).is_some_and(Page::is_written);
        let mut shared = false;
        for saved in &self.mappings[..self.mapping_count] {
            if matches!(saved.contents, Contents::Pages(_)) {
                let _ = each_page(self.pagemap, &saved.mapping, |_, _, page| {
                    shared |= page.is_changed() && !page.is_written();
                    Some(())
                });
            }
        }
        here && shared
    }

    /// Restores the memory; returns false if that is not possible.
    pub(super) fn restore(&mut self, layout: &mut MappingLayout, shadow: &[usize]) -> bool {
        let faulted = faults() != self.faults;
        for &page in shadow {
            fill_page(page, 0);
        }
        for page in &self.shadow[..self.shadow_count] {
            copy_page(page.copy, page.at);
        }
        for (previous, now) in self.own_heap_ends.into_iter().zip(sys::own_heap_ends()) {
            if previous < now {
                unmap(previous, now);
            }
        }
        let [stack, grown] = self.stack;
        if faulted && grown < stack {
            // SAFETY: nothing uses the stack's growth any more, if there is any.
            unsafe { call(libc::SYS_madvise, [grown, stack - grown, libc::MADV_DONTNEED as usize, 0, 0, 0]) };
        }
        let has_grown = heap_end(0) != self.heap_end;
        if has_grown {
            heap_end(self.heap_end);
        }
        let is_emptied = layout.is_emptied;
        let is_accounted_for = layout.reset(|start, end| self.forget(start, end));
        if !is_accounted_for {
            if self.restore_mappings().is_none() {
                return false;
            }
            self.forget_unsaved();
        }
        // The first write to a page faults.
        if (faulted || is_emptied || has_grown || !is_accounted_for) && self.find_written(layout).is_none() {
            return false;
        }
        for page in &self.written[..self.written_count] {
            fill_page(page.at, page.copy);
        }
        self.faults = faults();
        true
    }

    /// Finds pages that were written for the first time, or discarded.
    fn find_written(&mut self, layout: &MappingLayout) -> Option<()> {
        let Self {
            mappings, mapping_count, pages, written, written_count, written_at, copies, pagemap, ..
        } = self;
        let mut add = |at: usize, copy: usize| {
            if insert_page(written_at, at) {
                *written.get_mut(*written_count)? = WrittenPage { at, copy };
                *written_count += 1;
            }
            Some(())
        };
        for SavedMapping { mapping, contents } in &mappings[..*mapping_count] {
            let &Contents::Pages(first) = contents else { continue };
            each_page(*pagemap, mapping, |nth, at, page| {
                let known = pages[first as usize + nth];
                let was_discarded = known & CHANGED != 0 && !page.is_changed();
                if !page.is_written() && !was_discarded {
                    return Some(());
                }
                match known & !CHANGED {
                    0 if mapping.file => None,
                    0 => add(at, 0),
                    copy => add(at, copies[copy as usize - 1].as_ptr() as usize),
                }
            })?;
        }
        for piece in layout.pieces().iter().filter(|piece| piece.is_writable()) {
            let mapping = Mapping { start: piece.start, end: piece.end, rights: *b"rw-p", file: false };
            each_page(
                *pagemap,
                &mapping,
                |_, at, page| if page.is_changed() { add(at, 0) } else { Some(()) },
            )?;
        }
        Some(())
    }

    /// Undoes changes to mappings.
    fn restore_mappings(&mut self) -> Option<()> {
        let list = read_list(self.maps, &mut self.list)?;
        let mut now = maps::parse(&self.list[..list]).peekable();
        let mut previous = self.mappings[..self.mapping_count].iter().peekable();
        // The new mappings up to the next saved one.
        let mut new: Option<(usize, usize)> = None;
        let mut at = 0;
        loop {
            while now.next_if(|mapping| mapping.end <= at).is_some() {}
            while previous.next_if(|saved| saved.mapping.end <= at).is_some() {}
            let (a, b) = (previous.peek(), now.peek());
            let next = |start: usize, end: usize| if start <= at { end } else { start };
            let until = match (a, b) {
                (None, None) => break,
                (Some(a), None) => next(a.mapping.start, a.mapping.end),
                (None, Some(b)) => next(b.start, b.end),
                (Some(a), Some(b)) => next(a.mapping.start, a.mapping.end).min(next(b.start, b.end)),
            };
            let a = a.filter(|saved| saved.mapping.start <= at);
            let b = b.filter(|mapping| mapping.start <= at);
            if a.is_some()
                && let Some((from, to)) = new.take()
            {
                unmap(from, to);
            }
            match (a, b) {
                (None, None) => {}
                (None, Some(_)) => new = Some((new.map_or(at, |(from, _)| from), until)),
                (Some(a), None) => map_again(a, at, until)?,
                (Some(a), Some(b))
                    if (a.mapping.rights, a.mapping.file) != (b.rights, b.file)
                        || a.contents == Contents::Nothing =>
                {
                    protect_again(a, b, at, until)?;
                }
                (Some(_), Some(_)) => {}
            }
            at = until;
        }
        if let Some((from, to)) = new {
            unmap(from, to);
        }
        Some(())
    }
}

/// Adds a page to the hash table; returns false if it was there.
fn insert_page(table: &mut [usize; TABLE_SIZE], page: usize) -> bool {
    let mut place = (page / PAGE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    loop {
        match &mut table[place % TABLE_SIZE] {
            free if *free == 0 => {
                *free = page;
                return true;
            }
            same if *same == page => return false,
            _ => place += 1,
        }
    }
}

/// Returns the number of page faults of the process so far.
fn faults() -> usize {
    let mut info = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: there is room for the result.
    unsafe {
        call(libc::SYS_getrusage, [libc::RUSAGE_SELF as usize, info.as_mut_ptr() as usize, 0, 0, 0, 0]);
        let info = info.assume_init_ref();
        (info.ru_minflt + info.ru_majflt) as usize
    }
}

/// Returns whether a mapping is saved separately or not at all.
fn is_saved_elsewhere(mapping: &Mapping) -> bool {
    shadow::RANGE.contains(&mapping.start) || mapping.start == super::STATE_ADDRESS
}

fn unmap(from: usize, to: usize) {
    // SAFETY: it was mapped after everything that is still used.
    unsafe { call(libc::SYS_munmap, [from, to - from, 0, 0, 0, 0]) };
}

fn protection(rights: [u8; 4]) -> usize {
    let bit = |right: usize, bit: i32| if rights[right] == b'-' { 0 } else { bit };
    (bit(0, libc::PROT_READ) | bit(1, libc::PROT_WRITE) | bit(2, libc::PROT_EXEC)) as usize
}

fn map_again(saved: &SavedMapping, from: usize, to: usize) -> Option<()> {
    if saved.mapping.file || saved.mapping.rights[3] != b'p' || saved.contents == Contents::Constant {
        return None;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let args = [from, to - from, protection(saved.mapping.rights), flags as usize, usize::MAX, 0];
    // SAFETY: nothing is mapped there any more.
    (unsafe { call(libc::SYS_mmap, args) } == from as isize).then_some(())
}

fn protect_again(saved: &SavedMapping, now: &Mapping, from: usize, to: usize) -> Option<()> {
    let (previous, is_private) = (saved.mapping, saved.mapping.rights[3] == b'p');
    if previous.file != now.file
        || !is_private
        || now.rights[3] != b'p'
        || saved.contents == Contents::Constant
    {
        return None;
    }
    // SAFETY: restores the saved protection, and discards what was written to an empty mapping.
    unsafe {
        if saved.contents == Contents::Nothing {
            call(libc::SYS_madvise, [from, to - from, libc::MADV_DONTNEED as usize, 0, 0, 0]);
        }
        (call(libc::SYS_mprotect, [from, to - from, protection(previous.rights), 0, 0, 0]) == 0).then_some(())
    }
}

/// Returns the end of the heap; moves it to `to` first, unless that is 0.
fn heap_end(to: usize) -> usize {
    // SAFETY: memory beyond it was allocated after everything that is still used.
    unsafe { call(libc::SYS_brk, [to, 0, 0, 0, 0, 0]) as usize }
}

/// Reads the kernel's list of mappings; returns its length.
fn read_list(maps: usize, list: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    loop {
        let room = list.get_mut(len..).filter(|room| !room.is_empty())?;
        // SAFETY: there is as much room as the call says.
        match unsafe { call(libc::SYS_pread64, [maps, room.as_mut_ptr() as usize, room.len(), len, 0, 0]) } {
            0 => return Some(len),
            got @ 1.. => len += got as usize,
            _ => return None,
        }
    }
}

/// Calls `see` for each page of a mapping with its index and address, until it returns `None`.
fn each_page(
    pagemap: usize,
    mapping: &Mapping,
    mut see: impl FnMut(usize, usize, Page) -> Option<()>,
) -> Option<()> {
    const PAGES_PER_READ: usize = 1024;
    let mut info = [const { MaybeUninit::<Page>::uninit() }; PAGES_PER_READ];
    let count = (mapping.end - mapping.start) / PAGE;
    let mut nth = 0;
    while nth < count {
        let size = (count - nth).min(PAGES_PER_READ) * size_of::<Page>();
        let offset = (mapping.start / PAGE + nth) * size_of::<Page>();
        // SAFETY: there is as much room as the call says.
        let got =
            unsafe { call(libc::SYS_pread64, [pagemap, info.as_mut_ptr() as usize, size, offset, 0, 0]) };
        if got != size as isize {
            return None;
        }
        for page in &info[..size / size_of::<Page>()] {
            // SAFETY: the kernel wrote so many entries.
            see(nth, mapping.start + nth * PAGE, unsafe { page.assume_init() })?;
            nth += 1;
        }
    }
    Some(())
}

/// Reads a page through the kernel; returns false if there is none.
fn read_page(at: usize, copy: &mut [u8; PAGE]) -> bool {
    // SAFETY: there is room for a page.
    unsafe { sys::copy_memory(at, copy.as_mut_ptr() as usize, PAGE) == PAGE }
}

/// Fills a page from its copy, or with zeros.
pub(super) fn fill_page(at: usize, copy: usize) {
    if copy != 0 {
        return copy_page(copy, at);
    }
    // SAFETY: a writable page. In assembly, because the C library's memory may be what is being restored.
    unsafe {
        asm!("rep stosq", inout("rdi") at => _, inout("rcx") PAGE / 8 => _, in("rax") 0, options(nostack))
    };
}

fn copy_page(from: usize, to: usize) {
    // SAFETY: readable and writable pages. In assembly, as above.
    unsafe {
        asm!("rep movsq", inout("rsi") from => _, inout("rdi") to => _, inout("rcx") PAGE / 8 => _, options(nostack));
    }
}
