//! Decides which programs can be run under control.

use crate::Error;
use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};
use unsnarl_symbols::{Binary, ElfKind, Libc};

/// Returns the absolute path of the executable that a shell would run for this name.
///
/// # Errors
/// Returns an error if there is no such program.
pub fn find(name: &OsStr) -> Result<PathBuf, Error> {
    let missing = || Error::NoSuchProgram(name.into());
    let path = Path::new(name);
    let found = if path.components().count() > 1 || path.is_absolute() {
        Some(path.to_path_buf()).filter(|p| p.exists())
    } else {
        // Without PATH, shells and execvp look here.
        let directories = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        let executable =
            |p: &PathBuf| fs::metadata(p).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
        env::split_paths(&directories).map(|directory| directory.join(name)).find(executable)
    };
    let found = found.ok_or_else(missing)?;
    std::path::absolute(found).map_err(|_| missing())
}

/// Reads a program's file and checks that the program can be controlled.
///
/// # Errors
/// If the program cannot be controlled, with the reason and what to do.
pub fn check(program: &Path) -> Result<Binary, Error> {
    let unusable = |reason: String| Error::Unusable { program: program.into(), reason };
    let metadata = fs::metadata(program).map_err(|_| Error::NoSuchProgram(program.into()))?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(unusable("it is not an executable file".into()));
    }
    let binary = Binary::read(program).map_err(|error| unusable(error.cause.to_string()))?;
    let reason = match &binary.kind {
        ElfKind::DynamicExecutable => None,
        ElfKind::StaticExecutable if binary.is_go => {
            Some("it is a Go program, whose threads are not pthreads; unsnarl is for C, C++ and Rust".into())
        }
        ElfKind::StaticExecutable => {
            Some("it is statically linked; link it dynamically (without -static)".into())
        }
        ElfKind::Bits32 => Some("it is a 32-bit program; build it for x86-64".into()),
        ElfKind::WrongMachine(_) => Some("it is for another kind of processor; build it for x86-64".into()),
        ElfKind::Script(interpreter) => Some(format!(
            "it is a script; run its interpreter instead: {} {}; or, if the program is one that it starts, use explore, record or \
             hunt with --follow",
            started_by(interpreter),
            program.display()
        )),
        ElfKind::SharedLibrary => Some("it is a shared library; name a program that uses it".into()),
        _ => Some("it is not an ELF executable, or damaged; name the program itself".into()),
    };
    let needs = |library: &str| binary.needed.iter().any(|needed| needed.starts_with(library));
    let reason = reason.or_else(|| match binary.libc() {
        Libc::Musl => Some("it uses the musl C library; build it for glibc".into()),
        _ if binary.is_go => Some("it is a Go program, whose threads are not pthreads; unsnarl is for C, C++ and Rust".into()),
        _ if needs("libjli.so") || needs("libjvm.so") => Some(unsnarl_wire::JVM_REFUSED.into()),
        _ if binary.contains_tsan || needs("libtsan.so") => Some("it contains ThreadSanitizer's own runtime; build it with `unsnarl cc` instead of -fsanitize=thread".into()),
        _ if needs("libasan.so") => Some("AddressSanitizer's library must be loaded before unsnarl's runtime; link it with -static-libasan".into()),
        _ if binary.contains_msan => Some("MemorySanitizer reserves addresses that unsnarl needs; build it without -fsanitize=memory".into()),
        _ if metadata.mode() & 0o6000 != 0 => Some("it is setuid or setgid, and the system ignores preloaded libraries for those; run a copy without that bit".into()),
        _ => None,
    });
    match reason {
        Some(reason) => Err(unusable(reason)),
        None => Ok(binary),
    }
}

/// Returns the command for the first line of a script, without `env`, which only looks up the interpreter and executes
/// it.
fn started_by(line: &str) -> &str {
    let by_env = line
        .strip_prefix("/usr/bin/env ")
        .map(|rest| rest.trim_start().trim_start_matches("-S ").trim_start());
    match by_env.unwrap_or(line) {
        "" => "sh",
        interpreter => interpreter,
    }
}

#[cfg(test)]
mod tests {
    use super::started_by;

    #[test]
    fn script_interpreter_is_named_as_typed() {
        assert_eq!(started_by("/bin/sh -e"), "/bin/sh -e");
        assert_eq!(started_by("/usr/bin/env python3"), "python3");
        assert_eq!(started_by("/usr/bin/env -S perl -w"), "perl -w");
        assert_eq!(started_by(""), "sh");
    }
}
