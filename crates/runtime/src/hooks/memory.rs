//! Memory and string functions of instrumented programs. `unsnarl cc` links with `--wrap`, so only calls from
//! instrumented code get here; rustc and newer clang call the `__tsan_` functions.

use crate::access;
use core::ffi::{c_char, c_int, c_void};
use unsnarl_model::Op::{Read, Write};

unsafe extern "C" {
    fn memcpy(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void;
    fn memmove(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void;
    fn memset(to: *mut c_void, byte: c_int, size: usize) -> *mut c_void;
    fn mempcpy(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void;
    fn memcmp(a: *const c_void, b: *const c_void, size: usize) -> c_int;
    fn strcpy(to: *mut c_char, from: *const c_char) -> *mut c_char;
    fn stpcpy(to: *mut c_char, from: *const c_char) -> *mut c_char;
    fn strncpy(to: *mut c_char, from: *const c_char, size: usize) -> *mut c_char;
    fn strcat(to: *mut c_char, from: *const c_char) -> *mut c_char;
    fn strncat(to: *mut c_char, from: *const c_char, size: usize) -> *mut c_char;
    fn strlen(text: *const c_char) -> usize;
    fn strcmp(a: *const c_char, b: *const c_char) -> c_int;
    fn strncmp(a: *const c_char, b: *const c_char, size: usize) -> c_int;
    fn strchr(text: *const c_char, byte: c_int) -> *mut c_char;
    fn strrchr(text: *const c_char, byte: c_int) -> *mut c_char;
    fn strdup(text: *const c_char) -> *mut c_char;
    fn strnlen(text: *const c_char, size: usize) -> usize;
    fn memchr(bytes: *const c_void, byte: c_int, size: usize) -> *mut c_void;
    fn bcmp(a: *const c_void, b: *const c_void, size: usize) -> c_int;
    fn bcopy(from: *const c_void, to: *mut c_void, size: usize);
    fn bzero(to: *mut c_void, size: usize);
    fn explicit_bzero(to: *mut c_void, size: usize);
    fn stpncpy(to: *mut c_char, from: *const c_char, size: usize) -> *mut c_char;
    fn strstr(text: *const c_char, word: *const c_char) -> *mut c_char;
    fn strndup(text: *const c_char, size: usize) -> *mut c_char;
    // The variants that `_FORTIFY_SOURCE` calls; `room` is the size of the object written to.
    fn __memcpy_chk(to: *mut c_void, from: *const c_void, size: usize, room: usize) -> *mut c_void;
    fn __memmove_chk(to: *mut c_void, from: *const c_void, size: usize, room: usize) -> *mut c_void;
    fn __memset_chk(to: *mut c_void, byte: c_int, size: usize, room: usize) -> *mut c_void;
    fn __mempcpy_chk(to: *mut c_void, from: *const c_void, size: usize, room: usize) -> *mut c_void;
    fn __explicit_bzero_chk(to: *mut c_void, size: usize, room: usize);
    fn __strcpy_chk(to: *mut c_char, from: *const c_char, room: usize) -> *mut c_char;
    fn __stpcpy_chk(to: *mut c_char, from: *const c_char, room: usize) -> *mut c_char;
    fn __strncpy_chk(to: *mut c_char, from: *const c_char, size: usize, room: usize) -> *mut c_char;
    fn __stpncpy_chk(to: *mut c_char, from: *const c_char, size: usize, room: usize) -> *mut c_char;
    fn __strcat_chk(to: *mut c_char, from: *const c_char, room: usize) -> *mut c_char;
    fn __strncat_chk(to: *mut c_char, from: *const c_char, size: usize, room: usize) -> *mut c_char;
}

/// Returns the number of bytes that a comparison of at most `limit` bytes reads of each side: up to the first
/// difference and, for strings, up to the end.
unsafe fn compared(a: *const u8, b: *const u8, limit: usize, are_strings: bool) -> usize {
    let mut at = 0;
    while at < limit {
        // SAFETY: the comparison that the program asked for reads these bytes.
        let (a, b) = unsafe { (*a.add(at), *b.add(at)) };
        at += 1;
        if a != b || (are_strings && a == 0) {
            break;
        }
    }
    at
}

/// Returns the number of bytes that a search for this byte reads.
unsafe fn searched(bytes: *const c_void, byte: c_int, size: usize) -> usize {
    // SAFETY: the search that the program asked for.
    let found = unsafe { memchr(bytes, byte, size) } as usize;
    if found == 0 { size } else { found - bytes as usize + 1 }
}

/// Defines wrappers: the accesses they make, then the call of the function.
macro_rules! wrappers {
    ($($name:literal $register:literal $function:ident($($arg:ident: $type:ty),*) -> $ret:ty { $($op:ident $place:expr, $size:expr;)* })*) => {
        $(const _: () = {
            unsafe extern "C-unwind" fn wrapper($($arg: $type,)* pc: u64) -> $ret {
                // SAFETY: the program keeps the contract of the function it called.
                unsafe {
                    if access::is_observing() {
                        $(access::range($op, $place as usize, $size, pc);)*
                    }
                    $function($($arg),*)
                }
            }
            crate::atomic::exported!($register $name, wrapper);
        };)*
    };
}

type Bytes = *const c_void;
type BytesMut = *mut c_void;
type Text = *const c_char;
type TextMut = *mut c_char;

wrappers! {
    "__wrap_memcpy" "rcx" memcpy(to: BytesMut, from: Bytes, n: usize) -> BytesMut { Read from, n; Write to, n; }
    "__wrap_memmove" "rcx" memmove(to: BytesMut, from: Bytes, n: usize) -> BytesMut { Read from, n; Write to, n; }
    "__wrap_memset" "rcx" memset(to: BytesMut, byte: c_int, n: usize) -> BytesMut { Write to, n; }
    "__wrap_mempcpy" "rcx" mempcpy(to: BytesMut, from: Bytes, n: usize) -> BytesMut { Read from, n; Write to, n; }
    "__wrap_memcmp" "rcx" memcmp(a: Bytes, b: Bytes, n: usize) -> c_int { Read a, compared(a.cast(), b.cast(), n, false); Read b, compared(a.cast(), b.cast(), n, false); }
    "__wrap_bcmp" "rcx" bcmp(a: Bytes, b: Bytes, n: usize) -> c_int { Read a, compared(a.cast(), b.cast(), n, false); Read b, compared(a.cast(), b.cast(), n, false); }
    "__wrap_memchr" "rcx" memchr(bytes: Bytes, byte: c_int, n: usize) -> BytesMut { Read bytes, searched(bytes, byte, n); }
    "__wrap_bcopy" "rcx" bcopy(from: Bytes, to: BytesMut, n: usize) -> () { Read from, n; Write to, n; }
    "__wrap_bzero" "rdx" bzero(to: BytesMut, n: usize) -> () { Write to, n; }
    "__wrap_explicit_bzero" "rdx" explicit_bzero(to: BytesMut, n: usize) -> () { Write to, n; }
    "__wrap_strcpy" "rdx" strcpy(to: TextMut, from: Text) -> TextMut { Read from, strlen(from) + 1; Write to, strlen(from) + 1; }
    "__wrap_stpcpy" "rdx" stpcpy(to: TextMut, from: Text) -> TextMut { Read from, strlen(from) + 1; Write to, strlen(from) + 1; }
    "__wrap_strncpy" "rcx" strncpy(to: TextMut, from: Text, n: usize) -> TextMut { Read from, (strnlen(from, n) + 1).min(n); Write to, n; }
    "__wrap_strcat" "rdx" strcat(to: TextMut, from: Text) -> TextMut { Read from, strlen(from) + 1; Read to, strlen(to) + 1; Write to.add(strlen(to)), strlen(from) + 1; }
    "__wrap_strncat" "rcx" strncat(to: TextMut, from: Text, n: usize) -> TextMut { Read from, (strnlen(from, n) + 1).min(n); Read to, strlen(to) + 1; Write to.add(strlen(to)), strnlen(from, n) + 1; }
    "__wrap_strlen" "rsi" strlen(text: Text) -> usize { Read text, strlen(text) + 1; }
    "__wrap_strcmp" "rdx" strcmp(a: Text, b: Text) -> c_int { Read a, compared(a.cast(), b.cast(), usize::MAX, true); Read b, compared(a.cast(), b.cast(), usize::MAX, true); }
    "__wrap_strncmp" "rcx" strncmp(a: Text, b: Text, n: usize) -> c_int { Read a, compared(a.cast(), b.cast(), n, true); Read b, compared(a.cast(), b.cast(), n, true); }
    "__wrap_strchr" "rdx" strchr(text: Text, byte: c_int) -> TextMut { Read text, strlen(text) + 1; }
    "__wrap_strrchr" "rdx" strrchr(text: Text, byte: c_int) -> TextMut { Read text, strlen(text) + 1; }
    "__wrap_strstr" "rdx" strstr(text: Text, word: Text) -> TextMut { Read text, strlen(text) + 1; Read word, strlen(word) + 1; }
    "__wrap_strnlen" "rdx" strnlen(text: Text, n: usize) -> usize { Read text, (strnlen(text, n) + 1).min(n); }
    "__wrap_stpncpy" "rcx" stpncpy(to: TextMut, from: Text, n: usize) -> TextMut { Read from, (strnlen(from, n) + 1).min(n); Write to, n; }
    "__wrap_strndup" "rdx" strndup(text: Text, n: usize) -> TextMut { Read text, (strnlen(text, n) + 1).min(n); }
    "__wrap_strdup" "rsi" strdup(text: Text) -> TextMut { Read text, strlen(text) + 1; }
    "__wrap___memcpy_chk" "r8" __memcpy_chk(to: BytesMut, from: Bytes, n: usize, room: usize) -> BytesMut { Read from, n; Write to, n.min(room); }
    "__wrap___memmove_chk" "r8" __memmove_chk(to: BytesMut, from: Bytes, n: usize, room: usize) -> BytesMut { Read from, n; Write to, n.min(room); }
    "__wrap___memset_chk" "r8" __memset_chk(to: BytesMut, byte: c_int, n: usize, room: usize) -> BytesMut { Write to, n.min(room); }
    "__wrap___mempcpy_chk" "r8" __mempcpy_chk(to: BytesMut, from: Bytes, n: usize, room: usize) -> BytesMut { Read from, n; Write to, n.min(room); }
    "__wrap___explicit_bzero_chk" "rcx" __explicit_bzero_chk(to: BytesMut, n: usize, room: usize) -> () { Write to, n.min(room); }
    "__wrap___strcpy_chk" "rcx" __strcpy_chk(to: TextMut, from: Text, room: usize) -> TextMut { Read from, strlen(from) + 1; Write to, (strlen(from) + 1).min(room); }
    "__wrap___stpcpy_chk" "rcx" __stpcpy_chk(to: TextMut, from: Text, room: usize) -> TextMut { Read from, strlen(from) + 1; Write to, (strlen(from) + 1).min(room); }
    "__wrap___strncpy_chk" "r8" __strncpy_chk(to: TextMut, from: Text, n: usize, room: usize) -> TextMut { Read from, (strnlen(from, n) + 1).min(n); Write to, n.min(room); }
    "__wrap___stpncpy_chk" "r8" __stpncpy_chk(to: TextMut, from: Text, n: usize, room: usize) -> TextMut { Read from, (strnlen(from, n) + 1).min(n); Write to, n.min(room); }
    "__wrap___strcat_chk" "rcx" __strcat_chk(to: TextMut, from: Text, room: usize) -> TextMut { Read from, strlen(from) + 1; Read to, strlen(to) + 1; Write to.add(strlen(to)), strlen(from) + 1; }
    "__wrap___strncat_chk" "r8" __strncat_chk(to: TextMut, from: Text, n: usize, room: usize) -> TextMut { Read from, (strnlen(from, n) + 1).min(n); Read to, strlen(to) + 1; Write to.add(strlen(to)), strnlen(from, n) + 1; }
    "__tsan_memcpy" "rcx" memcpy(to: BytesMut, from: Bytes, n: usize) -> BytesMut { Read from, n; Write to, n; }
    "__tsan_memmove" "rcx" memmove(to: BytesMut, from: Bytes, n: usize) -> BytesMut { Read from, n; Write to, n; }
    "__tsan_memset" "rcx" memset(to: BytesMut, byte: c_int, n: usize) -> BytesMut { Write to, n; }
}
