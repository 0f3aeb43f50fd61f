//! Memory as it was, and how it is put back.
//!
//! What a page held is copied once. Which pages a run has written the kernel knows: a fork shares its pages with who forked it, until one
//! of them writes, and `/proc/self/pagemap` tells which ones are its own alone. Those are put back after each run from then on, for most runs
//! write the same ones. Mappings are compared with those that were there, and what is new, gone or protected in another way is
//! undone.

use super::{call, layout::MappingLayout};
use crate::{
    maps::{self, Mapping},
    shadow, sys,
};
use core::{arch::asm, mem::MaybeUninit};

pub(super) const PAGE: usize = 4096;
/// No more memory than that is kept.
const MAX_PAGES: usize = 16 << 10;
/// A run that writes more is better made by a fork.
const MAX_WRITTEN: usize = 4 << 10;
const PLACES: usize = 4 * MAX_WRITTEN;
const MAX_MAPPINGS: usize = 1024;
const LIST: usize = 256 << 10;

/// One mapping as it was.
#[derive(Clone, Copy)]
struct SavedMapping {
    mapping: Mapping,
    contents: Contents,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// They cannot change, or are not the run's business.
    Constant,
    /// There are none: nothing was written yet.
    Nothing,
    /// Its pages are known, from this one on.
    Pages(u32),
}

/// A page that runs write.
#[derive(Clone, Copy)]
struct WrittenPage {
    at: usize,
    /// What was there; 0 for zeros.
    copy: usize,
}

/// All of it; begins as zeros.
#[repr(C)]
pub(super) struct SavedMemory {
    maps: usize,
    pagemap: usize,
    is_saved: bool,
    /// Where the heap ended.
    heap_end: usize,
    /// Where the first thread's stack began, and how far it may have grown down from there.
    stack: [usize; 2],
    mappings: [SavedMapping; MAX_MAPPINGS],
    mapping_count: usize,
    /// For each page the number of its copy, from 1, and whether it was not the file's any more.
    pages: [u32; MAX_PAGES],
    page_count: usize,
    written: [WrittenPage; MAX_WRITTEN],
    written_count: usize,
    /// Where they are, by a hash.
    written_at: [usize; PLACES],
    /// Page faults up to the end of the last run.
    faults: usize,
    /// Where the runtime's own memory ended.
    own_ends: [usize; 2],
    /// Of the race detector's shadow, which has pages of its own.
    shadow: [WrittenPage; MAX_WRITTEN],
    shadow_count: usize,
    list: [u8; LIST],
    copies: [[u8; PAGE]; MAX_PAGES],
    copy_count: usize,
}

const CHANGED: u32 = 1 << 31;

/// What the kernel tells of a page.
#[derive(Clone, Copy)]
struct Page(u64);

impl Page {
    const fn is_present(self) -> bool {
        self.0 >> 63 != 0
    }

    /// A guard, which newer kernels can put where there is no page, looks as if it were.
    const fn is_swapped(self) -> bool {
        self.0 >> 62 & 1 != 0 && self.0 >> 58 & 1 == 0
    }

    const fn is_of_file(self) -> bool {
        self.0 >> 61 & 1 != 0
    }

    /// Whether nobody shares it.
    const fn is_exclusive(self) -> bool {
        self.0 >> 56 & 1 != 0
    }

    /// Whether it holds something that is in no file.
    const fn is_changed(self) -> bool {
        self.is_swapped() || self.is_present() && !self.is_of_file()
    }

    /// Whether it was written since the fork.
    const fn is_written(self) -> bool {
        self.is_swapped() || self.is_present() && !self.is_of_file() && self.is_exclusive()
    }
}

impl SavedMemory {
    /// Opens what is needed later; false if the system does not allow it.
    pub(super) fn prepare(&mut self) -> bool {
        let open = |path: &[u8]| {
            let args = [libc::AT_FDCWD as usize, path.as_ptr() as usize, libc::O_CLOEXEC as usize, 0, 0, 0];
            // SAFETY: the path ends with zero.
            unsafe { sys::call(libc::SYS_openat, args) }
        };
        let (maps, pagemap) = (open(b"/proc/self/maps\0"), open(b"/proc/self/pagemap\0"));
        (self.maps, self.pagemap) = (maps as usize, pagemap as usize);
        maps >= 0 && pagemap >= 0
    }

    pub(super) fn is_saved(&self) -> bool {
        self.is_saved
    }

    /// Keeps all that is there now; `stack` is a place in the first thread's.
    pub(super) fn save(&mut self, shadow: &[usize], stack: usize) {
        self.is_saved =
            self.save_mappings().is_some() && self.save_shadow(shadow).is_some() && self.detects_writes();
        self.heap_end = heap_end(0);
        self.own_ends = sys::own_ends();
        /// No more is free below it for sure; and it may not grow further, unless somebody allowed it.
        const GROWS: usize = 64 << 20;
        let mut below = 0;
        for SavedMapping { mapping, .. } in &self.mappings[..self.mapping_count] {
            if (mapping.start..=mapping.end).contains(&stack) {
                self.stack = [mapping.start, below.max(mapping.start.saturating_sub(GROWS))];
                break;
            }
            below = mapping.end;
        }
    }

    /// How many pages there are because of this.
    pub(super) fn pages(&self) -> usize {
        self.copy_count + self.written_count
    }

    /// Whether some of these bytes cannot be put back.
    pub(super) fn is_constant(&self, start: usize, end: usize) -> bool {
        self.mappings[..self.mapping_count].iter().any(|SavedMapping { mapping, contents }| {
            *contents == Contents::Constant && start < mapping.end && mapping.start < end
        })
    }

    /// The next part of these bytes that was there, and whether it could be written; none if they were not the process's own.
    pub(super) fn part(&self, start: usize, end: usize) -> Option<(usize, bool)> {
        let mappings = &self.mappings[..self.mapping_count];
        let SavedMapping { mapping, contents } = mappings.iter().find(|saved| start < saved.mapping.end)?;
        let is_own = mapping.start <= start && !mapping.file && *contents != Contents::Constant;
        is_own.then_some((mapping.end.min(end), *contents != Contents::Nothing))
    }

    /// Whether there may be something in these bytes.
    pub(super) fn holds(&self, start: usize, end: usize) -> bool {
        const MAX_PAGES_CHECKED: usize = 16;
        let mapping = Mapping { start, end, rights: *b"---p", file: false };
        let is_known = self.written[..self.written_count].iter().any(|page| (start..end).contains(&page.at));
        (end - start) / PAGE > MAX_PAGES_CHECKED || is_known || !self.is_empty(&mapping)
    }

    /// These bytes are gone.
    pub(super) fn forget(&mut self, start: usize, end: usize) {
        self.retain_written(|_, at| !(start..end).contains(&at));
    }

    /// All that was not there is gone.
    fn forget_all_new(&mut self) {
        self.retain_written(|saved, at| {
            saved.iter().any(|saved| (saved.mapping.start..saved.mapping.end).contains(&at))
        });
    }

    fn retain_written(&mut self, stays: impl Fn(&[SavedMapping], usize) -> bool) {
        let Self { mappings, mapping_count, written, written_count, written_at, .. } = self;
        let before = *written_count;
        *written_count = 0;
        for nth in 0..before {
            if stays(&mappings[..*mapping_count], written[nth].at) {
                written[*written_count] = written[nth];
                *written_count += 1;
            }
        }
        if *written_count < before {
            written_at.fill(0);
            for page in &written[..*written_count] {
                note(written_at, page.at);
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

    /// Whether the kernel tells pages that were written from others: what was just written here is, what nobody writes is not.
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

    /// Puts all of it back; false if that is not possible.
    pub(super) fn restore(&mut self, layout: &mut MappingLayout, shadow: &[usize]) -> bool {
        let faulted = faults() != self.faults;
        for &page in shadow {
            fill_page(page, 0);
        }
        for page in &self.shadow[..self.shadow_count] {
            copy_page(page.copy, page.at);
        }
        for (previous, now) in self.own_ends.into_iter().zip(sys::own_ends()) {
            if previous < now {
                unmap(previous, now);
            }
        }
        let [stack, grown] = self.stack;
        if faulted && grown < stack {
            // SAFETY: nobody is there any more, as far as there is anything.
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
            self.forget_all_new();
        }
        // Who writes a page for the first time faults.
        if (faulted || is_emptied || has_grown || !is_accounted_for) && self.find_written(layout).is_none() {
            return false;
        }
        for page in &self.written[..self.written_count] {
            fill_page(page.at, page.copy);
        }
        self.faults = faults();
        true
    }

    /// Looks for pages that were written for the first time, or given back.
    fn find_written(&mut self, layout: &MappingLayout) -> Option<()> {
        let Self {
            mappings, mapping_count, pages, written, written_count, written_at, copies, pagemap, ..
        } = self;
        let mut add = |at: usize, copy: usize| {
            if note(written_at, at) {
                *written.get_mut(*written_count)? = WrittenPage { at, copy };
                *written_count += 1;
            }
            Some(())
        };
        for SavedMapping { mapping, contents } in &mappings[..*mapping_count] {
            let &Contents::Pages(first) = contents else { continue };
            each_page(*pagemap, mapping, |nth, at, page| {
                let known = pages[first as usize + nth];
                let is_lost = known & CHANGED != 0 && !page.is_changed();
                if !page.is_written() && !is_lost {
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

    /// Undoes what became of mappings.
    fn restore_mappings(&mut self) -> Option<()> {
        let list = read_list(self.maps, &mut self.list)?;
        let mut now = maps::parse(&self.list[..list]).peekable();
        let mut previous = self.mappings[..self.mapping_count].iter().peekable();
        // What is new, up to the next that was there.
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

/// Notes a page; false if it was noted before.
fn note(noted: &mut [usize; PLACES], page: usize) -> bool {
    let mut place = (page / PAGE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    loop {
        match &mut noted[place % PLACES] {
            free if *free == 0 => {
                *free = page;
                return true;
            }
            same if *same == page => return false,
            _ => place += 1,
        }
    }
}

/// How often the process has faulted so far.
fn faults() -> usize {
    let mut info = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: room for the answer.
    unsafe {
        call(libc::SYS_getrusage, [libc::RUSAGE_SELF as usize, info.as_mut_ptr() as usize, 0, 0, 0, 0]);
        let info = info.assume_init_ref();
        (info.ru_minflt + info.ru_majflt) as usize
    }
}

/// What has its own way of being kept, or is not to be.
fn is_saved_elsewhere(mapping: &Mapping) -> bool {
    shadow::RANGE.contains(&mapping.start) || mapping.start == super::PLACE
}

fn unmap(from: usize, to: usize) {
    // SAFETY: it came after all that is still used.
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
    // SAFETY: there is nothing any more.
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
    // SAFETY: as it was; what was written where nothing was is forgotten.
    unsafe {
        if saved.contents == Contents::Nothing {
            call(libc::SYS_madvise, [from, to - from, libc::MADV_DONTNEED as usize, 0, 0, 0]);
        }
        (call(libc::SYS_mprotect, [from, to - from, protection(previous.rights), 0, 0, 0]) == 0).then_some(())
    }
}

/// Where the heap ends; moves it there, if that is not 0.
fn heap_end(to: usize) -> usize {
    // SAFETY: what lies beyond came after all that is still used.
    unsafe { call(libc::SYS_brk, [to, 0, 0, 0, 0, 0]) as usize }
}

/// The kernel's list of mappings; its length.
fn read_list(maps: usize, list: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    loop {
        let room = list.get_mut(len..).filter(|room| !room.is_empty())?;
        // SAFETY: as much room as it says.
        match unsafe { call(libc::SYS_pread64, [maps, room.as_mut_ptr() as usize, room.len(), len, 0, 0]) } {
            0 => return Some(len),
            got @ 1.. => len += got as usize,
            _ => return None,
        }
    }
}

/// Tells each page of a mapping, with its number there and its address, until somebody has had enough.
fn each_page(
    pagemap: usize,
    mapping: &Mapping,
    mut see: impl FnMut(usize, usize, Page) -> Option<()>,
) -> Option<()> {
    const AT_A_TIME: usize = 1024;
    let mut info = [const { MaybeUninit::<Page>::uninit() }; AT_A_TIME];
    let count = (mapping.end - mapping.start) / PAGE;
    let mut nth = 0;
    while nth < count {
        let size = (count - nth).min(AT_A_TIME) * size_of::<Page>();
        let offset = (mapping.start / PAGE + nth) * size_of::<Page>();
        // SAFETY: as much room as it says.
        let got =
            unsafe { call(libc::SYS_pread64, [pagemap, info.as_mut_ptr() as usize, size, offset, 0, 0]) };
        if got != size as isize {
            return None;
        }
        for page in &info[..size / size_of::<Page>()] {
            // SAFETY: the kernel told so many.
            see(nth, mapping.start + nth * PAGE, unsafe { page.assume_init() })?;
            nth += 1;
        }
    }
    Some(())
}

/// Reads a page by way of the kernel; false if there is none.
fn read_page(at: usize, copy: &mut [u8; PAGE]) -> bool {
    // SAFETY: room for a page.
    unsafe { sys::copy_memory(at, copy.as_mut_ptr() as usize, PAGE) == PAGE }
}

/// A copy of that page, or zeros.
pub(super) fn fill_page(at: usize, copy: usize) {
    if copy != 0 {
        return copy_page(copy, at);
    }
    // SAFETY: a page that may be written. By hand: the C library's own memory may be just what is put back.
    unsafe {
        asm!("rep stosq", inout("rdi") at => _, inout("rcx") PAGE / 8 => _, in("rax") 0, options(nostack))
    };
}

fn copy_page(from: usize, to: usize) {
    // SAFETY: pages that may be read and written. By hand, as above.
    unsafe {
        asm!("rep movsq", inout("rsi") from => _, inout("rdi") to => _, inout("rcx") PAGE / 8 => _, options(nostack));
    }
}
