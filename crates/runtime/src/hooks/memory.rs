//! Memory and string functions of instrumented programs. `unsnarl cc` links with `--wrap`, so only calls from
//! instrumented code get here; rustc and newer clang call the `__tsan_` functions.

use crate::access::range;
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
}

/// Defines wrappers: the accesses they make, then the call of the function.
macro_rules! wrappers {
    ($($name:literal $register:literal $function:ident($($arg:ident: $type:ty),*) -> $ret:ty { $($op:ident $place:expr, $size:expr;)* })*) => {
        $(const _: () = {
            unsafe extern "C-unwind" fn wrapper($($arg: $type,)* pc: u64) -> $ret {
                // SAFETY: the program keeps the contract of the function it called; lengths are computed at
                // the thread's turn.
                unsafe {
                    $(range($op, $place as usize, $size, pc);)*
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
    "__wrap_memcmp" "rcx" memcmp(a: Bytes, b: Bytes, n: usize) -> c_int { Read a, n; Read b, n; }
    "__wrap_strcpy" "rdx" strcpy(to: TextMut, from: Text) -> TextMut { Read from, strlen(from) + 1; Write to, strlen(from) + 1; }
    "__wrap_stpcpy" "rdx" stpcpy(to: TextMut, from: Text) -> TextMut { Read from, strlen(from) + 1; Write to, strlen(from) + 1; }
    "__wrap_strncpy" "rcx" strncpy(to: TextMut, from: Text, n: usize) -> TextMut { Read from, (strnlen(from, n) + 1).min(n); Write to, n; }
    "__wrap_strcat" "rdx" strcat(to: TextMut, from: Text) -> TextMut { Read from, strlen(from) + 1; Read to, strlen(to) + 1; Write to.add(strlen(to)), strlen(from) + 1; }
    "__wrap_strncat" "rcx" strncat(to: TextMut, from: Text, n: usize) -> TextMut { Read from, (strnlen(from, n) + 1).min(n); Read to, strlen(to) + 1; Write to.add(strlen(to)), strnlen(from, n) + 1; }
    "__wrap_strlen" "rsi" strlen(text: Text) -> usize { Read text, strlen(text) + 1; }
    "__wrap_strcmp" "rdx" strcmp(a: Text, b: Text) -> c_int { Read a, strlen(a) + 1; Read b, strlen(b) + 1; }
    "__wrap_strncmp" "rcx" strncmp(a: Text, b: Text, n: usize) -> c_int { Read a, strnlen(a, n); Read b, strnlen(b, n); }
    "__wrap_strchr" "rdx" strchr(text: Text, byte: c_int) -> TextMut { Read text, strlen(text) + 1; }
    "__wrap_strrchr" "rdx" strrchr(text: Text, byte: c_int) -> TextMut { Read text, strlen(text) + 1; }
    "__wrap_strdup" "rsi" strdup(text: Text) -> TextMut { Read text, strlen(text) + 1; }
    "__tsan_memcpy" "rcx" memcpy(to: BytesMut, from: Bytes, n: usize) -> BytesMut { Read from, n; Write to, n; }
    "__tsan_memmove" "rcx" memmove(to: BytesMut, from: Bytes, n: usize) -> BytesMut { Read from, n; Write to, n; }
    "__tsan_memset" "rcx" memset(to: BytesMut, byte: c_int, n: usize) -> BytesMut { Write to, n; }
}
