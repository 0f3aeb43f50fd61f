//! Library functions that can return directly to translated code.
//!
//! Usually a call of untraced code leaves the original return address on the stack, and returning costs a
//! fault. Functions that neither unwind nor call back nor wait nor inspect their caller may get a return
//! address in translated code.

use crate::{
    loaded,
    log::{Log, c_bytes},
};
use alloc::vec::Vec;

/// The names of these functions. None of them is hooked.
const NAMES: &[&[u8]] = &[
    b"malloc",
    b"calloc",
    b"realloc",
    b"free",
    b"_Znwm",
    b"_Znam",
    b"_ZdlPv",
    b"_ZdaPv",
    b"_ZdlPvm",
    b"_ZdaPvm",
    b"memcpy",
    b"memmove",
    b"memset",
    b"memcmp",
    b"memchr",
    b"bcmp",
    b"strlen",
    b"strnlen",
    b"strcmp",
    b"strncmp",
    b"strcpy",
    b"strncpy",
    b"stpcpy",
    b"strcat",
    b"strncat",
    b"strchr",
    b"strrchr",
    b"strstr",
    b"strspn",
    b"strcspn",
    b"strcoll",
    b"strxfrm",
    b"strcasecmp",
    b"strncasecmp",
    b"memrchr",
    b"rawmemchr",
    b"memmem",
    b"strpbrk",
    b"strchrnul",
    b"strdup",
    b"strndup",
    b"strtol",
    b"strtoul",
    b"strtoll",
    b"strtoull",
    b"strtod",
    b"atoi",
    b"atol",
    b"atof",
    b"toupper",
    b"tolower",
    b"snprintf",
    b"sprintf",
    b"vsnprintf",
    b"printf",
    b"puts",
    b"putchar",
    b"fputs",
    b"fputc",
    b"fwrite",
    b"fprintf",
    b"fwrite_unlocked",
    b"fputs_unlocked",
    b"fputc_unlocked",
    b"__overflow",
    b"__snprintf_chk",
    b"__sprintf_chk",
    b"__printf_chk",
    b"__fprintf_chk",
    b"__memcpy_chk",
    b"__memmove_chk",
    b"__memset_chk",
    b"__strcpy_chk",
    b"sin",
    b"cos",
    b"tan",
    b"exp",
    b"log",
    b"log2",
    b"log10",
    b"pow",
    b"sqrt",
    b"floor",
    b"ceil",
    b"fmod",
    // The trees of C++'s maps and sets.
    b"_ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base",
    b"_ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base",
    b"_ZSt18_Rb_tree_decrementPSt18_Rb_tree_node_base",
    b"_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_",
    b"__tls_get_addr",
    b"__errno_location",
    b"__ctype_b_loc",
    b"__ctype_tolower_loc",
    b"__ctype_toupper_loc",
];

/// Returns the addresses of the words through which traced modules call these functions.
pub(super) fn slots(log: &Log) -> Vec<u64> {
    let mut slots = Vec::new();
    loaded::for_each(|module| {
        if log.is_traced(module.path()) {
            for (section, _) in module.segments(libc::PT_DYNAMIC) {
                // SAFETY: the module's dynamic section, which ends with a zero.
                unsafe { read(section.start as *const [u64; 2], module.base(), &mut slots) };
            }
        }
    });
    slots.sort_unstable();
    slots
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

unsafe fn read(mut entry: *const [u64; 2], base: u64, slots: &mut Vec<u64>) {
    const STRINGS: u64 = 5;
    const SYMBOLS: u64 = 6;
    const RELOCATIONS: u64 = 7;
    const SIZE: u64 = 8;
    const STUBS: u64 = 23;
    const STUBS_SIZE: u64 = 2;
    let mut found = [0; 24];
    // SAFETY: the caller's contract.
    while let [tag @ 1..=u64::MAX, value] = unsafe { *entry } {
        if let Some(place) = found.get_mut(tag as usize) {
            *place = value;
        }
        // SAFETY: still before the terminating zero.
        entry = unsafe { entry.add(1) };
    }
    // Some loaders do not relocate these addresses.
    let at = |tag: u64| {
        let value = found[tag as usize];
        if value < base { value + base } else { value }
    };
    for (table, size) in [(RELOCATIONS, SIZE), (STUBS, STUBS_SIZE)] {
        if found[table as usize] == 0 {
            continue;
        }
        for number in 0..found[size as usize] as usize / size_of::<Relocation>() {
            // SAFETY: the section states the number of entries.
            let Relocation { offset, info, .. } = unsafe { &*(at(table) as *const Relocation).add(number) };
            let symbol = info >> 32;
            if symbol != 0 {
                // SAFETY: symbols have 24 bytes and begin with the offset of their name.
                let name = unsafe { *((at(SYMBOLS) + 24 * symbol) as *const u32) };
                if NAMES.contains(&c_bytes((at(STRINGS) + u64::from(name)) as *const _)) {
                    slots.push(base + offset);
                }
            }
        }
    }
}
