//! Distinguishes the user's own code from libraries: code of the language, of the system and of other people.

use std::sync::OnceLock;

/// The directories that the user assigned: the longest that contains a file decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeOwnership {
    /// Directories and files with the user's own code.
    pub user: Vec<String>,
    /// Directories and files with code of libraries.
    pub libraries: Vec<String>,
}

static OWNERSHIP: OnceLock<CodeOwnership> = OnceLock::new();

/// Assigns directories to the user or to libraries. Only the first call of a process counts.
pub fn set_ownership(ownership: CodeOwnership) {
    // A second assignment would make names depend on when they were looked up.
    let _ = OWNERSHIP.set(ownership);
}

impl CodeOwnership {
    /// Returns whether a file belongs to a library; `None` if no directory that contains it was assigned.
    fn is_library(&self, file: &str) -> Option<bool> {
        let longest = |paths: &[String]| {
            let contains = |path: &&String| {
                let path = path.trim_end_matches('/');
                file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            paths.iter().filter(contains).map(String::len).max()
        };
        let (user, library) = (longest(&self.user), longest(&self.libraries));
        (user.is_some() || library.is_some()).then(|| library > user)
    }
}

fn assigned(file: &str) -> Option<bool> {
    OWNERSHIP.get().and_then(|ownership| ownership.is_library(file))
}

/// Prefixes of library file names, followed by a version or `.so`.
const LIBRARIES: &[&str] = &[
    "libc",
    "ld",
    "ld-linux-x86-64",
    "libstdc++",
    "libc++",
    "libc++abi",
    "libsupc++",
    "libgcc_s",
    "libpthread",
    "libm",
    "libmvec",
    "libdl",
    "librt",
    "libutil",
    "libresolv",
    "libanl",
    "libatomic",
    "libgomp",
    "libtsan",
    "libunwind",
];

/// Directories of the headers and sources that come with compilers and the system.
const SOURCES: &[&str] =
    &["/usr/include/", "/usr/local/include/", "/usr/lib/", "/usr/share/", "/usr/src/", "/opt/", "/rustc/"];

/// Parts of the paths of other people's code: cargo's registry and checkouts, and copies in the user's own tree.
const DEPENDENCIES: &[&str] = &[
    "/registry/src/",
    "/git/checkouts/",
    "/vendor/",
    "/vendored/",
    "/third_party/",
    "/third-party/",
    "/node_modules/",
    "/_deps/",
];

/// Directories of installed libraries.
const INSTALLED: &[&str] = &["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/"];

/// Returns whether a module belongs to the system or to unsnarl rather than to the user's program.
#[must_use]
pub fn is_system(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("libunsnarl")
        || name.starts_with("linux-vdso")
        || name.starts_with("linux-gate")
        || path == "[vdso]"
        || (name.starts_with("libstd-") && name.ends_with(".so"))
        || LIBRARIES.iter().any(|library| {
            name.strip_prefix(library).is_some_and(|rest| {
                // `libm.so.6` and `libm-2.31.so`, but not `libmine.so` and not `ld`.
                rest.starts_with(".so")
                    || (rest.starts_with('-')
                        && rest[1..].starts_with(|c: char| c.is_ascii_digit())
                        && rest.contains(".so"))
            })
        })
}

/// Returns whether all code of a module is a library's, unless its debug information says otherwise.
pub(crate) fn is_library_module(path: &str) -> bool {
    let is_library = || path.contains(".so") && INSTALLED.iter().any(|directory| path.starts_with(directory));
    assigned(path).unwrap_or_else(|| is_system(path) || is_library())
}

/// Returns whether code in the user's own module came with the language: the standard library's generics,
/// inlined functions and start-up code. If the file is known it decides, because a user may implement
/// `std::hash` or `Drop`.
pub(crate) fn is_system_code(file: Option<&str>, function: Option<&str>) -> bool {
    match (file, function) {
        (Some(file), _) => is_system_source(file),
        (None, Some(function)) => is_system_function(function),
        (None, None) => false,
    }
}

fn is_system_source(file: &str) -> bool {
    assigned(file).unwrap_or_else(|| is_library_source(file))
}

fn is_library_source(file: &str) -> bool {
    DEPENDENCIES.iter().any(|part| file.contains(part))
        || SOURCES.iter().any(|source| file.starts_with(source))
        || file.contains("/rustlib/src/rust/library/")
        || file.contains("/rust/library/")
        // The dependencies of Rust's standard library.
        || file.starts_with("/rust/deps/")
        // The header directories of clang and other gccs.
        || file.contains("/include/c++/")
}

fn is_system_function(function: &str) -> bool {
    const START: &[&str] =
        &["_start", "__libc_", "_init", "_fini", "deregister_tm_clones", "register_tm_clones", "frame_dummy"];
    const RUST: &[&str] = &["rust_", "__rust", "_rust", "___rust"];
    const CPP: &[&str] = &["__gnu_cxx::", "__gthread", "__cxxabiv1::", "__cxa_"];
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| function.starts_with(prefix));
    if starts(START) || starts(RUST) || starts(CPP) {
        return true;
    }
    // `<Type as Trait>::method` belongs to the owner of the type; only calls through a closure's shim belong
    // to the language whatever the type.
    let owner = function.trim_start_matches(['<', '&', '*', '(', '[']).trim_start_matches("mut ");
    let of_language = ["std::", "core::", "alloc::"].iter().any(|library| owner.starts_with(library));
    of_language || function.contains(" as core::ops::function::Fn")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_libraries_are_recognised() {
        for path in [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/x86_64-linux-gnu/libc-2.31.so",
            "/lib64/ld-linux-x86-64.so.2",
            "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30",
            "/lib/libgcc_s.so.1",
            "/lib/libm.so.6",
            "/tmp/libunsnarl_runtime.so",
            "linux-vdso.so.1",
            "[vdso]",
            "/r/lib/libstd-0123456789abcdef.so",
        ] {
            assert!(is_system(path), "{path}");
        }
        for path in
            ["/home/me/libmine.so", "/home/me/ld", "/home/me/a.out", "/usr/lib/libz.so.1", "libcool.so"]
        {
            assert!(!is_system(path), "{path}");
        }
    }

    #[test]
    fn source_file_decides_if_code_is_system() {
        let header = Some("/usr/include/c++/12/bits/std_mutex.h");
        assert!(is_system_code(header, Some("std::mutex::lock")));
        assert!(is_system_code(Some("/rustc/abc/library/std/src/sync/mutex.rs"), None));
        assert!(!is_system_code(Some("/home/me/hash.cpp"), Some("std::hash<Me>::operator()")));
        assert!(is_system_code(Some("/root/.cargo/registry/src/x/lib.rs"), Some("x::f")));
        assert!(is_system_code(Some("/home/me/project/vendor/x/lib.rs"), Some("x::f")));
        assert!(!is_system_code(Some("/home/me/vendors.rs"), Some("x::f")));
    }

    #[test]
    fn installed_libraries_belong_to_others() {
        assert!(is_library_module("/usr/lib/libz.so.1") && is_library_module("/lib/libc.so.6"));
        assert!(!is_library_module("/usr/bin/sort") && !is_library_module("/home/me/libmine.so"));
    }

    #[test]
    fn longest_assigned_directory_decides() {
        let ownership = CodeOwnership {
            user: vec!["/home/me/vendor/ours".to_owned()],
            libraries: vec!["/home/me/vendor/".to_owned(), "/home/me/util.h".to_owned()],
        };
        for (file, expected) in [
            ("/home/me/vendor/ours/a.c", Some(false)),
            ("/home/me/vendor/b.c", Some(true)),
            ("/home/me/util.h", Some(true)),
            ("/home/me/util.hpp", None),
            ("/home/me/main.c", None),
        ] {
            assert_eq!(ownership.is_library(file), expected, "{file}");
        }
    }

    #[test]
    fn function_name_decides_without_source_file() {
        for name in [
            "std::__invoke_impl<void, main::{lambda()#1}>",
            "core::panicking::panic_fmt",
            "<alloc::vec::Vec<u8> as core::ops::drop::Drop>::drop",
            "<me::run::{closure#0} as core::ops::function::FnOnce<()>>::call_once",
            "__rust_begin_unwind",
            "rust_panic",
        ] {
            assert!(is_system_code(None, Some(name)), "{name}");
        }
        for name in ["main", "<me::Guard as core::ops::drop::Drop>::drop", "me::std::f", "stdout_lock"] {
            assert!(!is_system_code(None, Some(name)), "{name}");
        }
    }
}
