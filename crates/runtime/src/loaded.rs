//! The loader's list of the modules in memory.

use crate::log::c_bytes;
use core::{ffi::c_void, ops::Range};
use libc::{Elf64_Phdr as Segment, dl_phdr_info};

/// A module as the loader describes it.
pub(crate) struct Loaded<'a>(&'a dl_phdr_info);

impl<'a> Loaded<'a> {
    /// Returns the path of the module's file, empty for the program itself.
    pub(crate) fn path(&self) -> &'a [u8] {
        c_bytes(self.0.dlpi_name)
    }

    pub(crate) fn base(&self) -> u64 {
        self.0.dlpi_addr
    }

    fn headers(&self) -> &'a [Segment] {
        if self.0.dlpi_phnum == 0 {
            return &[];
        }
        // SAFETY: the loader states the number of program headers.
        unsafe { core::slice::from_raw_parts(self.0.dlpi_phdr, self.0.dlpi_phnum.into()) }
    }

    /// Returns the addresses of the segments of this type.
    pub(crate) fn segments(
        &self,
        segment_type: u32,
    ) -> impl DoubleEndedIterator<Item = (Range<u64>, &'a Segment)> {
        let base = self.base();
        self.headers().iter().filter(move |header| header.p_type == segment_type).map(move |header| {
            let start = base + header.p_vaddr;
            (start..start + header.p_memsz, header)
        })
    }

    /// Returns the addresses of the code.
    pub(crate) fn code(&self) -> impl Iterator<Item = Range<u64>> {
        let loads = self.segments(libc::PT_LOAD);
        loads.filter(|(_, header)| header.p_flags & libc::PF_X != 0).map(|(range, _)| range)
    }
}

/// Calls `visit` for each module until it returns something.
pub(crate) fn find<T, V: FnMut(&Loaded<'_>) -> Option<T>>(visit: V) -> Option<T> {
    struct Search<T, V> {
        visit: V,
        found: Option<T>,
    }
    unsafe extern "C" fn step<T, V: FnMut(&Loaded<'_>) -> Option<T>>(
        module: *mut dl_phdr_info,
        _: usize,
        search: *mut c_void,
    ) -> i32 {
        // SAFETY: the loader describes a module, and passes the pointer that it was given.
        let (module, search) = unsafe { (&*module, &mut *search.cast::<Search<T, V>>()) };
        search.found = (search.visit)(&Loaded(module));
        search.found.is_some().into()
    }
    let mut search = Search { visit, found: None };
    // SAFETY: `step` has the type that is asked for, and `search` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(step::<T, V>), (&raw mut search).cast()) };
    search.found
}

/// Calls `visit` for each module.
pub(crate) fn for_each(mut visit: impl FnMut(&Loaded<'_>)) {
    find(|module| -> Option<()> {
        visit(module);
        None
    });
}

/// Returns the aligned words of the last segment of this type and with these rights, in the module whose path
/// has this end.
pub(crate) fn words_of(path_end: &[u8], segment_type: u32, rights: u32) -> impl Iterator<Item = usize> {
    let segment = find(|module| {
        let mut segments =
            module.segments(segment_type).filter(|(_, header)| header.p_flags & rights == rights);
        module.path().ends_with(path_end).then(|| segments.next_back().map(|(range, _)| range))
    });
    let (start, end) = segment.flatten().map_or((0, 0), |range| (range.start as usize, range.end as usize));
    let words = start.next_multiple_of(8)..end & !7;
    words.step_by(size_of::<u64>())
}
