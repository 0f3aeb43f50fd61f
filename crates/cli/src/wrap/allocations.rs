//! The object file through which instrumented code allocates.
//!
//! The linker redirects calls of these functions (`--wrap`). If the runtime were all that they refer to, a linker with
//! `--as-needed` would drop a library that defines the functions themselves: an allocator, or the C++ library of a
//! program that uses nothing else of it. So each program and each library gets an object file with the redirected
//! functions, which refers to both: it passes the address of the function to the runtime, whatever defines it, be it a
//! library or an archive.

use super::ALLOCATIONS;
use crate::verdict::UnusableError;
use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;

/// The C++ functions among them begin like this. A program in C need not have them.
const CXX_PREFIX: &str = "_Z";

/// Which of the functions the program has for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defined {
    /// The functions of the C library.
    C,
    /// These, and `operator new` and `delete`.
    Cxx,
}

impl Defined {
    /// Returns what is defined where the arguments name the C++ library, or the compiler adds it.
    pub(super) fn with(is_cxx: bool, args: &[OsString]) -> Self {
        let has = |names: &[&str]| args.iter().any(|arg| names.iter().any(|name| arg == name));
        let linked = is_cxx && !has(&["-nostdlib++"]);
        if linked || has(&["-lstdc++", "-lc++", "-lsupc++"]) { Self::Cxx } else { Self::C }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cxx => "c++",
        }
    }

    /// Returns the name of the object file, which differs if its contents do.
    pub(super) fn object(self) -> String {
        let mut hasher = DefaultHasher::new();
        self.assembly().hash(&mut hasher);
        format!("allocations-{}-{:016x}.o", self.name(), hasher.finish())
    }

    /// Makes sure that the object file is in this directory.
    pub(super) fn keep_object(self, compiler: &[OsString], directory: &Path) -> Result<()> {
        let object = directory.join(self.object());
        if object.exists() {
            return Ok(());
        }
        let draft = |extension: &str| object.with_extension(format!("{}.{extension}", std::process::id()));
        let (source, made) = (draft("s"), draft("draft"));
        std::fs::write(&source, self.assembly())
            .with_context(|| format!("cannot write {}", source.display()))?;
        let arguments: [&OsStr; 5] =
            ["-c".as_ref(), "-o".as_ref(), made.as_ref(), "-x".as_ref(), "assembler".as_ref()];
        let output = Command::new(&compiler[0]).args(&compiler[1..]).args(arguments).arg(&source).output();
        // Another compiler may have made it meanwhile; it is the same.
        let _ = std::fs::remove_file(&source);
        let output = output.with_context(|| format!("cannot run {}", compiler[0].to_string_lossy()))?;
        if !output.status.success() {
            bail!(UnusableError(format!(
                "{} cannot assemble a file of unsnarl's: {}",
                compiler[0].to_string_lossy(),
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
        std::fs::rename(&made, &object).with_context(|| format!("cannot write {}", object.display()))
    }

    fn assembly(self) -> String {
        // Like the stubs by which a program calls libraries, these have no source, and a slice passes over them.
        let mut text = String::from("\t.section .plt.unsnarl, \"ax\", @progbits\n");
        for symbol in ALLOCATIONS {
            if self == Self::C && symbol.starts_with(CXX_PREFIX) {
                text += &format!("\t.weak __real_{symbol}\n");
            }
            text += &format!(
                "\t.globl __wrap_{symbol}\n\t.hidden __wrap_{symbol}\n\t.type __wrap_{symbol}, @function\n\
                 __wrap_{symbol}:\n\t.cfi_startproc\n\
                 \tmovq __real_{symbol}@GOTPCREL(%rip), %r11\n\
                 \tjmp *unsnarl_{symbol}@GOTPCREL(%rip)\n\
                 \t.cfi_endproc\n\t.size __wrap_{symbol}, .-__wrap_{symbol}\n"
            );
        }
        text + "\t.section .note.GNU-stack, \"\", @progbits\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_new_is_optional_in_c() {
        assert!(Defined::C.assembly().contains(".weak __real__Znwm\n"));
        assert!(!Defined::Cxx.assembly().contains(".weak"));
        assert!(!Defined::C.assembly().contains(".weak __real_malloc"));
    }

    #[test]
    fn cxx_library_is_recognised() {
        let args = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(Defined::with(false, &args("a.o -lm")), Defined::C);
        assert_eq!(Defined::with(false, &args("a.o -lstdc++")), Defined::Cxx);
        assert_eq!(Defined::with(true, &args("a.o")), Defined::Cxx);
        assert_eq!(Defined::with(true, &args("a.o -nostdlib++")), Defined::C);
    }
}
