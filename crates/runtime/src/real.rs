//! The functions that hooks stand in for.

use core::{
    ffi::{CStr, c_void},
    sync::atomic::{AtomicPtr, Ordering},
};

/// The next definition of a name behind ours, looked up when first needed.
pub(crate) struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Its address; none if the program's libraries do not have it.
    #[inline]
    pub(crate) fn find(&self) -> Option<*mut c_void> {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the name is a C string.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            if found.is_null() {
                found = self.in_front();
            }
            self.found.store(found, Ordering::Relaxed);
        }
        (!found.is_null()).then_some(found)
    }

    /// Linkers put us behind the C library. Under control we are preloaded all the same, but a program that
    /// runs by itself finds nothing behind us, and what it means is in front.
    #[cold]
    fn in_front(&self) -> *mut c_void {
        unsafe extern "C" {
            static __ehdr_start: u8;
        }
        // SAFETY: the name is a C string, the linker defines where we begin, and the answer is ours to write.
        unsafe {
            let first = libc::dlsym(libc::RTLD_DEFAULT, self.name.as_ptr());
            let mut home: libc::Dl_info = core::mem::zeroed();
            let known = libc::dladdr(first, &raw mut home) != 0;
            // Our own definition is no answer.
            if known && home.dli_fbase != (&raw const __ehdr_start).cast_mut().cast() {
                first
            } else {
                core::ptr::null_mut()
            }
        }
    }

    /// Its address, for functions that every glibc has.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        match self.find() {
            Some(found) => found,
            None => crate::end::missing(self.name),
        }
    }
}

/// Declares real functions: `real! { fn name(arg: Type) -> Type; }` calls the next definition.
macro_rules! real {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)?;)*) => {
        $(
            #[allow(clippy::missing_safety_doc, non_snake_case, reason = "as the function itself demands")]
            pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) $(-> $ret)? {
                static REAL: $crate::real::Real = $crate::real::Real::new(
                    // SAFETY: a literal with a zero added.
                    unsafe { core::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) });
                type Function = unsafe extern "C-unwind" fn($($type),*) $(-> $ret)?;
                // SAFETY: the symbol is the function declared by the same name and signature.
                let function = unsafe { core::mem::transmute::<*mut core::ffi::c_void, Function>(REAL.address()) };
                // SAFETY: passed on as received.
                unsafe { function($($arg),*) }
            }
        )*
    };
}
pub(crate) use real;
