//! The initial stack: `argc`, `argv`, the environment, the auxiliary vector, and the data they point to.

use crate::{
    addresses,
    image::LoadedImage,
    sys::{self, MapMode},
};
use core::ops::Range;

/// The stack's size if the limit does not fit.
const DEFAULT_SIZE: usize = 8 << 20;
const MIN_SIZE: usize = 128 << 10;
/// Unlimited, for all practical purposes.
const MAX_SIZE: usize = 64 << 30;

/// Maps a stack of the size that the limit allows.
pub(crate) fn reserve(executable: bool) -> Option<Range<usize>> {
    let limit = usize::try_from(sys::stack_limit()).unwrap_or(MAX_SIZE).clamp(MIN_SIZE, MAX_SIZE) & !4095;
    let protection =
        libc::PROT_READ | libc::PROT_WRITE | if executable { libc::PROT_EXEC } else { libc::PROT_NONE };
    [limit, DEFAULT_SIZE].into_iter().find_map(|size| {
        let start = addresses::TOP - size;
        let fits = sys::map(start, size, protection, MapMode::Free)
            && sys::map(start - addresses::GUARD, addresses::GUARD, libc::PROT_NONE, MapMode::Free);
        // A stack is touched page by page.
        // SAFETY: advice about the new mapping.
        unsafe { sys::call(libc::SYS_madvise, [start, size, libc::MADV_NOHUGEPAGE as usize, 0, 0, 0]) };
        fits.then_some(start..addresses::TOP)
    })
}

/// The initial stack that the kernel built for the first load.
pub(crate) struct InitialStack {
    argv: *const *const u8,
    envp: *const *const u8,
    auxv: *const [usize; 2],
}

/// The new initial stack.
pub(crate) struct NewStack {
    /// The stack pointer for the loader.
    pub(crate) pointer: usize,
    pub(crate) arguments: Range<usize>,
    pub(crate) environment: Range<usize>,
    /// The auxiliary vector with its last entry.
    pub(crate) auxv: Range<usize>,
}

/// Returns the number of entries before the one that `is_last`.
unsafe fn count<T: Copy>(list: *const T, is_last: impl Fn(T) -> bool) -> usize {
    // SAFETY: the caller guarantees that the list has such an entry.
    (0..).take_while(|&nth| !is_last(unsafe { *list.add(nth) })).count()
}

/// Returns the length of a C string with its zero byte.
unsafe fn size(text: *const u8) -> usize {
    // SAFETY: the caller passes a C string.
    unsafe { count(text, |byte| byte == 0) + 1 }
}

impl InitialStack {
    /// Reads the initial stack, which begins with `argc`.
    ///
    /// # Safety
    /// `argc` points to the beginning of the initial stack.
    pub(crate) unsafe fn at(argc: *const usize) -> Self {
        // SAFETY: the caller's contract; each list ends with a null entry, and the next one follows.
        unsafe {
            let argv = argc.add(1).cast::<*const u8>();
            let envp = argv.add(*argc + 1);
            let auxv = envp.add(count(envp, |entry: *const u8| entry.is_null()) + 1).cast();
            Self { argv, envp, auxv }
        }
    }

    fn arguments(&self) -> &[*const u8] {
        // SAFETY: the environment follows the arguments and their null entry.
        unsafe { core::slice::from_raw_parts(self.argv, self.envp.offset_from_unsigned(self.argv) - 1) }
    }

    fn environment(&self) -> &[*const u8] {
        // SAFETY: the auxiliary vector follows the environment and its null entry.
        unsafe {
            core::slice::from_raw_parts(
                self.envp,
                self.auxv.cast::<*const u8>().offset_from_unsigned(self.envp) - 1,
            )
        }
    }

    /// Returns the auxiliary vector with its last entry.
    fn auxiliary(&self) -> &[[usize; 2]] {
        // SAFETY: it ends with a null entry.
        unsafe {
            let len = count(self.auxv, |[kind, _]: [usize; 2]| kind == libc::AT_NULL as usize) + 1;
            core::slice::from_raw_parts(self.auxv, len)
        }
    }

    fn value(&self, kind_of_value: u64) -> usize {
        let found = self.auxiliary().iter().find(|[kind, _]| *kind == kind_of_value as usize);
        found.map_or(0, |&[_, value]| value)
    }

    /// Returns the program's entry point in the first load.
    pub(crate) fn entry(&self) -> usize {
        self.value(libc::AT_ENTRY)
    }

    /// Opens the program by the path with which it was started.
    pub(crate) fn open_program(&self) -> Option<i32> {
        let path = self.value(libc::AT_EXECFN) as *const u8;
        // SAFETY: the kernel's C string, if it exists.
        sys::open((!path.is_null()).then(|| unsafe { core::slice::from_raw_parts(path, size(path)) })?)
    }

    /// Builds the new stack in the kernel's order: strings at the top, then the data that the auxiliary
    /// vector points to, then the lists.
    pub(crate) fn build(&self, stack: &Range<usize>, loaded: &LoadedImage, loader: &LoadedImage) -> NewStack {
        // The kernel ends the stack with an empty word.
        let mut space = StackSpace { at: stack.end - 8 };
        let name = self.value(libc::AT_EXECFN) as *const u8;
        // SAFETY: the kernel's strings.
        unsafe {
            let name = if name.is_null() { 0 } else { space.push_bytes(name, size(name)) };
            let environment_end = space.at;
            let environment_size: usize = self.environment().iter().map(|&entry| size(entry)).sum();
            let argument_size: usize = self.arguments().iter().map(|&entry| size(entry)).sum();
            space.at -= environment_size;
            let environment = space.at..environment_end;
            space.at -= argument_size;
            let arguments = space.at..environment.start;
            let platform = self.value(libc::AT_PLATFORM) as *const u8;
            let platform = if platform.is_null() { 0 } else { space.push_bytes(platform, size(platform)) };
            space.at &= !15;
            // The loader derives the pointer guard from these bytes. The runtime replaces them by random
            // bytes of the plan.
            let random = space.push_bytes(b"unsnarl's layout".as_ptr(), 16);

            let auxiliary = self.auxiliary();
            let words =
                1 + (self.arguments().len() + 1) + (self.environment().len() + 1) + 2 * auxiliary.len();
            let pointer = (space.at - words * 8) & !15;
            let mut lists = pointer as *mut usize;
            let mut append = |word: usize| {
                lists.write(word);
                lists = lists.add(1);
            };
            append(self.arguments().len());
            let mut at = arguments.start;
            for &argument in self.arguments() {
                append(at);
                at += copy(argument, at);
            }
            append(0);
            for &entry in self.environment() {
                let len = copy(entry, at);
                append(without_layout(at, len));
                at += len;
            }
            append(0);
            let auxv = pointer + (words - 2 * auxiliary.len()) * 8;
            for &[kind, value] in auxiliary {
                let (kind, value) = match kind as u64 {
                    libc::AT_PHDR => (kind, loaded.headers),
                    libc::AT_ENTRY => (kind, loaded.entry),
                    libc::AT_BASE => (kind, loader.base),
                    libc::AT_EXECFN => (kind, name),
                    libc::AT_PLATFORM => (kind, platform),
                    libc::AT_RANDOM => (kind, random),
                    // The vdso vanishes with the first load; libc makes system calls instead.
                    libc::AT_SYSINFO_EHDR => (libc::AT_IGNORE as usize, 0),
                    _ => (kind, value),
                };
                append(kind);
                append(value);
            }
            NewStack { pointer, arguments, environment, auxv: auxv..pointer + words * 8 }
        }
    }
}

/// Copies a C string; returns its size.
unsafe fn copy(text: *const u8, to: usize) -> usize {
    // SAFETY: the caller passes a C string and guarantees room.
    unsafe {
        let len = size(text);
        core::ptr::copy_nonoverlapping(text, to as *mut u8, len);
        len
    }
}

/// Removes this library from an environment entry and returns the entry's address: `LD_PRELOAD=ours:others`
/// becomes `LD_PRELOAD=others`.
unsafe fn without_layout(entry: usize, len: usize) -> usize {
    const NAME: &[u8] = b"LD_PRELOAD=";
    const LAYOUT_LIBRARY: &[u8] = b"/libunsnarl_layout.so:";
    // SAFETY: the caller passes a string on the new stack.
    let text = unsafe { core::slice::from_raw_parts_mut(entry as *mut u8, len) };
    if !text.starts_with(NAME) {
        return entry;
    }
    let first = text.iter().position(|&byte| byte == b':').map_or(0, |colon| colon + 1);
    if !text[..first].ends_with(LAYOUT_LIBRARY) {
        return entry;
    }
    let start = first - NAME.len();
    text[start..first].copy_from_slice(NAME);
    entry + start
}

/// The free part of the stack, filled from the top.
struct StackSpace {
    at: usize,
}

impl StackSpace {
    /// Copies bytes to the stack and returns their address.
    ///
    /// # Safety
    /// The bytes are readable.
    unsafe fn push_bytes(&mut self, bytes: *const u8, len: usize) -> usize {
        self.at -= len;
        // SAFETY: the new stack is larger than the kernel's data on the first one.
        unsafe { core::ptr::copy_nonoverlapping(bytes, self.at as *mut u8, len) };
        self.at
    }
}
