//! The heap that `brk` moves, and the kernel's description of the program.

use crate::{
    image::{Image, LoadedImage},
    stack::NewStack,
    sys::{self, MapMode},
};

/// `struct prctl_mm_map`.
#[repr(C)]
struct Description {
    start_code: usize,
    end_code: usize,
    start_data: usize,
    end_data: usize,
    start_heap: usize,
    heap_end: usize,
    start_stack: usize,
    start_arguments: usize,
    end_arguments: usize,
    start_environment: usize,
    end_environment: usize,
    auxv: usize,
    auxv_size: u32,
    executable: u32,
}

/// Puts the heap behind the program and describes the new layout to the kernel, for `/proc`. Returns false if
/// the kernel does not allow it, because it was built without `CONFIG_CHECKPOINT_RESTORE` or a filter forbids
/// the call.
pub(crate) fn describe(program: &Image, base: usize, loaded: &LoadedImage, built: &NewStack) -> bool {
    let bounds = |flag: u32| {
        let of_kind = || program.loads().filter(move |segment| segment.p_flags & flag != 0);
        let start = of_kind().map(|segment| segment.p_vaddr as usize).min().unwrap_or(0);
        let end = of_kind().map(|segment| (segment.p_vaddr + segment.p_filesz) as usize).max().unwrap_or(0);
        (base.wrapping_add(start), base.wrapping_add(end))
    };
    let ((start_code, end_code), (start_data, end_data)) = (bounds(libc::PF_X), bounds(libc::PF_W));
    let description = Description {
        start_code,
        end_code,
        start_data,
        end_data,
        start_heap: loaded.end,
        heap_end: loaded.end,
        start_stack: built.pointer,
        start_arguments: built.arguments.start,
        end_arguments: built.arguments.end,
        start_environment: built.environment.start,
        end_environment: built.environment.end,
        auxv: built.auxv.start,
        auxv_size: built.auxv.len() as u32,
        executable: u32::MAX,
    };
    let args = [
        libc::PR_SET_MM as usize,
        libc::PR_SET_MM_MAP as usize,
        &raw const description as usize,
        size_of::<Description>(),
        0,
        0,
    ];
    // SAFETY: the kernel reads the description; its addresses are those of the new load.
    unsafe { sys::call(libc::SYS_prctl, args) == 0 && sys::heap_end() == loaded.end }
}

/// Keeps the heap from growing at its random address: malloc then maps its memory.
pub(crate) fn block_growth(end: usize) {
    sys::map(end.next_multiple_of(4096), 4096, libc::PROT_NONE, MapMode::Free);
}
