//! The real functions that hooks replace.

use core::{
    ffi::{CStr, c_void},
    sync::atomic::{AtomicPtr, Ordering},
};

/// The next definition of a name behind the runtime's, looked up when first needed.
pub(crate) struct Real {
    name: &'static CStr,
    pub(crate) found: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Returns its address; `None` if the program's libraries do not have it.
    #[inline]
    pub(crate) fn find(&self) -> Option<*mut c_void> {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the name is a C string.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            if found.is_null() {
                found = self.find_in_front();
            }
            if found.is_null() {
                found = self.find_in_plugins();
            }
            self.found.store(found, Ordering::Relaxed);
        }
        (!found.is_null()).then_some(found)
    }

    /// Finds a definition in front of this library. Linkers put it behind the C library. Under control it is
    /// preloaded, but an uncontrolled program finds nothing behind it; the real definition is in front.
    #[cold]
    fn find_in_front(&self) -> *mut c_void {
        unsafe extern "C" {
            static __ehdr_start: u8;
        }
        // SAFETY: the name is a C string, the linker defines the start of this library, and `home` is local.
        unsafe {
            let first = libc::dlsym(libc::RTLD_DEFAULT, self.name.as_ptr());
            let mut home: libc::Dl_info = core::mem::zeroed();
            let known = libc::dladdr(first, &raw mut home) != 0;
            // The library's own definition does not count.
            if known && home.dli_fbase != (&raw const __ehdr_start).cast_mut().cast() {
                first
            } else {
                core::ptr::null_mut()
            }
        }
    }

    /// Finds a definition in libraries that came with a plugin: they are visible only to the plugin and not
    /// behind this library, which still replaces their functions.
    #[cold]
    fn find_in_plugins(&self) -> *mut c_void {
        type Open = unsafe extern "C" fn(*const core::ffi::c_char, i32) -> *mut c_void;
        const LIBRARIES: [&CStr; 3] = [c"libgcc_s.so.1", c"libstdc++.so.6", c"libgomp.so.1"];
        // SAFETY: the names are C strings; a library that is absent is not loaded, and one that is loaded
        // stays.
        unsafe {
            let open = libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr());
            if open.is_null() {
                return core::ptr::null_mut();
            }
            let open: Open = core::mem::transmute(open);
            let find_in = |library: &CStr| match open(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) {
                handle if handle.is_null() => core::ptr::null_mut(),
                handle => libc::dlsym(handle, self.name.as_ptr()),
            };
            LIBRARIES
                .iter()
                .map(|library| find_in(library))
                .find(|found| !found.is_null())
                .unwrap_or_default()
        }
    }

    /// Returns its address, for functions that every glibc has.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        match self.find() {
            Some(found) => found,
            None => crate::end::missing(self.name),
        }
    }
}

/// Functions that programs print the text of `dlerror` by. A lookup frees that text, so it must not be the first call of
/// these functions that looks them up.
const EARLY: [&CStr; 12] = [
    c"puts",
    c"fputs",
    c"fputc",
    c"putc",
    c"fwrite",
    c"write",
    c"writev",
    c"fprintf",
    c"vfprintf",
    c"__fprintf_chk",
    c"__vfprintf_chk",
    c"fflush",
];

/// Looks up [`EARLY`], before the program starts.
pub(crate) fn find_early() {
    unsafe extern "C" {
        static __start_unsnarl_real: u8;
        static __stop_unsnarl_real: u8;
    }
    let range =
        (&raw const __start_unsnarl_real).cast::<Real>()..(&raw const __stop_unsnarl_real).cast::<Real>();
    let mut at = range.start;
    while at < range.end {
        // SAFETY: the linker puts all of the section's statics, of this one type, between the two symbols.
        let real = unsafe { &*at };
        if EARLY.contains(&real.name) {
            real.find();
        }
        at = at.wrapping_add(1);
    }
}

/// Declares real functions: `real! { fn name(arg: Type) -> Type; }` calls the next definition.
macro_rules! real {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)?;)*) => {
        $(
            #[allow(clippy::missing_safety_doc, non_snake_case, reason = "the contract of the C function")]
            pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) $(-> $ret)? {
                #[unsafe(link_section = "unsnarl_real")]
                static REAL: $crate::real::Real = $crate::real::Real::new(
                    // SAFETY: a literal with a zero appended.
                    unsafe { core::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) });
                type Function = unsafe extern "C-unwind" fn($($type),*) $(-> $ret)?;
                // SAFETY: the symbol is the function declared by the same name and signature.
                let function = unsafe { core::mem::transmute::<*mut core::ffi::c_void, Function>(REAL.address()) };
                // SAFETY: the arguments are passed on as received.
                unsafe { function($($arg),*) }
            }
        )*
    };
}
pub(crate) use real;
