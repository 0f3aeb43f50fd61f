//! Functions of the C library that access memory on behalf of the program, and the flags that keep compilers from
//! expanding them.
//!
//! No compiler instruments the calls of these functions: the linker redirects each to the runtime's `__wrap_` function,
//! which reports the accesses. That works only for calls. gcc replaces a call whose size or string is constant by plain
//! instructions, and does so after it has inserted the instrumentation, so these accesses would be lost. clang
//! instruments its own expansions, except those of comparisons, which it expands last.

/// The functions whose calls the linker redirects.
pub(super) const ACCESSES: [&str; 44] = [
    "memcpy",
    "memmove",
    "memset",
    "mempcpy",
    "memcmp",
    "memchr",
    "bcmp",
    "bcopy",
    "bzero",
    "explicit_bzero",
    "strcpy",
    "stpcpy",
    "strncpy",
    "stpncpy",
    "strcat",
    "strncat",
    "strlen",
    "strnlen",
    "strcmp",
    "strncmp",
    "strchr",
    "strrchr",
    "strstr",
    "strdup",
    "strndup",
    "sprintf",
    "snprintf",
    "vsprintf",
    "vsnprintf",
    // _FORTIFY_SOURCE calls these.
    "__memcpy_chk",
    "__memmove_chk",
    "__memset_chk",
    "__mempcpy_chk",
    "__explicit_bzero_chk",
    "__strcpy_chk",
    "__stpcpy_chk",
    "__strncpy_chk",
    "__stpncpy_chk",
    "__strcat_chk",
    "__strncat_chk",
    "__sprintf_chk",
    "__snprintf_chk",
    "__vsprintf_chk",
    "__vsnprintf_chk",
];

/// The functions that gcc must call. Those that only measure a string (`strlen`, `strchr` …) stay builtins: they are
/// used in constant expressions, and gcc does not expand them at a place in memory that may change.
const CALLED: [&str; 20] = [
    "memcpy",
    "memmove",
    "memset",
    "mempcpy",
    "memcmp",
    "bcmp",
    "bcopy",
    "bzero",
    "strcpy",
    "stpcpy",
    "strncpy",
    "stpncpy",
    "strcat",
    "strncat",
    "strcmp",
    "strncmp",
    "sprintf",
    "snprintf",
    "vsprintf",
    "vsnprintf",
];

/// The builtins that `_FORTIFY_SOURCE`, the C++ library and many programs name themselves. gcc expands them only if it
/// knows their last argument: a size, the size of an object or a string.
const NAMED: [&str; 20] = [
    "__builtin_memcpy",
    "__builtin_memmove",
    "__builtin_memset",
    "__builtin_mempcpy",
    "__builtin_strcpy",
    "__builtin_stpcpy",
    "__builtin_strncpy",
    "__builtin_stpncpy",
    "__builtin_strcat",
    "__builtin_strncat",
    "__builtin___memcpy_chk",
    "__builtin___memmove_chk",
    "__builtin___memset_chk",
    "__builtin___mempcpy_chk",
    "__builtin___strcpy_chk",
    "__builtin___stpcpy_chk",
    "__builtin___strncpy_chk",
    "__builtin___stpncpy_chk",
    "__builtin___strcat_chk",
    "__builtin___strncat_chk",
];

/// The builtins for formatting, with the function to call instead and its type. Their last argument may have any type.
/// gcc knows a function only by its name in the source, which is another one here.
const FORMATTING: [(&str, &str, &str); 4] = [
    ("__builtin_sprintf", "sprintf", "(char*,const char*,...)"),
    ("__builtin_snprintf", "snprintf", "(char*,__SIZE_TYPE__,const char*,...)"),
    ("__builtin___sprintf_chk", "__sprintf_chk", "(char*,int,__SIZE_TYPE__,const char*,...)"),
    ("__builtin___snprintf_chk", "__snprintf_chk", "(char*,__SIZE_TYPE__,int,__SIZE_TYPE__,const char*,...)"),
];

/// A zero that gcc does not know.
const ZERO: &str =
    "__extension__({__SIZE_TYPE__ __unsnarl_zero=0;__asm__(\"\":\"+r\"(__unsnarl_zero));__unsnarl_zero;})";

/// Returns gcc's flags.
pub(super) fn gcc_flags() -> impl Iterator<Item = String> {
    CALLED.iter().map(|name| format!("-fno-builtin-{name}"))
}

/// Returns a file of macros that make gcc call the functions whose builtins a program names. It is read before all
/// headers (`-imacros`).
pub(super) fn gcc_macros() -> String {
    let mut macros = String::from("#pragma GCC system_header\n");
    for builtin in NAMED {
        // A zero may be added to the last argument, whatever operators that consists of.
        macros += &format!("#define {builtin}(...) {builtin}(__VA_ARGS__+{ZERO})\n");
    }
    for (builtin, function, arguments) in FORMATTING {
        let alias = format!("__unsnarl_{function}");
        macros += &format!(
            "#define {builtin}(...) (__extension__({{extern int {alias}{arguments}__asm__(\"{function}\");\
             {alias}(__VA_ARGS__);}}))\n"
        );
    }
    macros
}

/// Returns clang's flags.
pub(super) fn clang_flags() -> [&'static str; 2] {
    // No comparison is expanded.
    ["-mllvm", "-max-loads-per-memcmp=0"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_that_is_called_is_redirected() {
        let named = NAMED.iter().map(|name| name.trim_start_matches("__builtin_"));
        for name in CALLED.into_iter().chain(named).chain(FORMATTING.map(|(_, function, _)| function)) {
            assert!(ACCESSES.contains(&name), "{name}");
        }
    }

    #[test]
    fn builtins_named_in_the_source_become_calls() {
        let macros = gcc_macros();
        assert!(macros.contains("#define __builtin_memcpy(...) __builtin_memcpy(__VA_ARGS__+__extension__"));
        assert!(macros.contains("__unsnarl_sprintf(__VA_ARGS__)"), "{macros}");
        let flags: Vec<String> = gcc_flags().collect();
        assert!(flags.contains(&"-fno-builtin-memset".to_owned()));
        assert!(!flags.contains(&"-fno-builtin-strlen".to_owned()));
    }
}
