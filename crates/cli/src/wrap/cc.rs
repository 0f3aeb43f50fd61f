//! `unsnarl cc` and `unsnarl c++`, for use as `CC` and `CXX` in any build system.
//!
//! The arguments go to the compiler unchanged. The added flags depend on whether it compiles or links, which is hard to
//! detect from outside (response files, `-x`, standard input, `-print-…`), so the compiler's driver decides. gcc gets a
//! specs file, which extends the command lines of the compiler proper and of the linker. The driver itself gets no
//! `-fsanitize=thread`, and so does not link libtsan. clang has no specs files, but it has `-fno-sanitize-link-runtime`
//! and can ignore arguments that it does not need.

use super::{
    ALLOCATIONS, RUNTIME,
    allocations::Defined,
    builtins::{self, ACCESSES},
    run,
};
use crate::verdict::{UnusableError, UsageError};
use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

/// Sanitizers whose runtimes take over memory or threads themselves.
const REFUSED: [&str; 5] = ["address", "hwaddress", "kernel-address", "leak", "memory"];

const STATIC_REFUSED: &str = "a statically linked program cannot be controlled, link it dynamically";

/// Returns the functions whose calls the linker redirects.
fn wrapped() -> impl Iterator<Item = &'static str> {
    ACCESSES.into_iter().chain(ALLOCATIONS)
}

/// The language to compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// `unsnarl cc`.
    C,
    /// `unsnarl c++`.
    Cxx,
}

impl Language {
    const fn variable(self) -> &'static str {
        match self {
            Self::C => "UNSNARL_CC",
            Self::Cxx => "UNSNARL_CXX",
        }
    }

    const fn candidates(self) -> &'static [&'static str] {
        match self {
            Self::C => &["gcc", "cc", "clang"],
            Self::Cxx => &["g++", "c++", "clang++"],
        }
    }
}

/// Runs the compiler on `args` so that its output reports to the runtime in `runtime_dir`, and returns its exit status.
/// Prints nothing of its own if the compiler succeeds.
pub(crate) fn cc(language: Language, args: &[OsString], runtime_dir: &Path) -> Result<i32> {
    let compiler = Compiler::find(language)?;
    let defined = Defined::with(language == Language::Cxx, args);
    defined.keep_object(&compiler.words, runtime_dir)?;
    let args = match compiler.family {
        Family::Gcc { major } => {
            let specs = runtime_dir.join(format!("gcc-{major}-{}.specs", defined.name()));
            keep_file(&specs, &gcc_specs(major, runtime_dir, defined)?)?;
            let macros = runtime_dir.join("gcc-builtins.h");
            keep_file(&macros, builtins::gcc_macros().as_bytes())?;
            gcc_args(args, &specs, &macros)
        }
        Family::Clang => clang_args(args, runtime_dir, defined)?,
    };
    let mut command = Command::new(&compiler.words[0]);
    // The directory of `unsnarl.h` comes after all other include directories.
    command.args(&compiler.words[1..]).arg("-idirafter").arg(runtime_dir.join(unsnarl_exec::HEADERS));
    run(command.args(args))
}

/// The compiler that is wrapped.
#[derive(Debug)]
struct Compiler {
    /// The command: a program, perhaps with leading arguments (`ccache gcc`).
    words: Vec<OsString>,
    family: Family,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Gcc { major: u32 },
    Clang,
}

impl Compiler {
    fn find(language: Language) -> Result<Self> {
        let variable = language.variable();
        if let Some(named) = std::env::var_os(variable).filter(|v| !v.is_empty()) {
            let missing = || {
                UnusableError(format!("{variable} names {}, which does not exist", named.to_string_lossy()))
            };
            return Ok(Self::identify(split_words(&named))?.ok_or_else(missing)?);
        }
        for candidate in language.candidates() {
            if let Some(found) = Self::identify(vec![candidate.into()])? {
                return Ok(found);
            }
        }
        bail!(UnusableError(format!(
            "no compiler found (looked for {}): install gcc and g++, or name one in {variable}",
            language.candidates().join(", ")
        )))
    }

    /// Asks the program for its version; `None` if there is no such program.
    fn identify(words: Vec<OsString>) -> Result<Option<Self>> {
        let Some((program, first)) = words.split_first() else { return Ok(None) };
        let answer = Command::new(program).args(first).arg("--version").env("LC_ALL", "C").output();
        let answer = match answer {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            answer => answer.with_context(|| format!("cannot run {}", program.to_string_lossy()))?,
        };
        let version = String::from_utf8_lossy(&answer.stdout);
        let family = family_of(&version).ok_or_else(|| {
            UnusableError(format!(
                "{} is neither gcc nor clang: name one in UNSNARL_CC or UNSNARL_CXX",
                program.to_string_lossy()
            ))
        })?;
        Ok(Some(Self { words, family }))
    }
}

/// Returns the compiler family for the output of `--version`.
fn family_of(version: &str) -> Option<Family> {
    if version.contains("clang version") {
        return Some(Family::Clang);
    }
    if !version.contains("Free Software Foundation") {
        return None;
    }
    // "gcc (Debian 12.2.0-14+deb12u1) 12.2.0": the package name may hold other numbers.
    let (_, after) = version.lines().next()?.split_once(") ")?;
    let major = after.trim_start().split('.').next()?.parse().ok()?;
    Some(Family::Gcc { major })
}

fn split_words(text: &OsStr) -> Vec<OsString> {
    text.as_bytes()
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect()
}

/// Returns gcc's command line. `-g` comes first, so that the user's own `-g…` wins. The user's `-fsanitize=thread` is
/// removed, because the driver would link libtsan for it.
fn gcc_args(args: &[OsString], specs: &Path, macros: &Path) -> Vec<OsString> {
    let mut specs_option = OsString::from("-specs=");
    specs_option.push(specs);
    let mut all = vec!["-g".into(), specs_option, "-imacros".into(), macros.into()];
    all.extend(builtins::gcc_flags().map(OsString::from));
    all.extend_from_slice(args);
    all.push("-fno-sanitize=thread".into());
    all
}

/// Returns the specs file with the flags that gcc's driver adds.
fn gcc_specs(major: u32, runtime_dir: &Path, defined: Defined) -> Result<Vec<u8>> {
    let mut compile = String::from("-fsanitize=thread -U__SANITIZE_THREAD__");
    if major >= 11 {
        // Fences are modelled, contrary to gcc's warning about TSan; and stacks come from unwinding.
        compile.push_str(" -Wno-tsan --param tsan-instrument-func-entry-exit=0");
    }
    let mut refusals = String::new();
    for sanitizer in REFUSED.iter().filter(|s| **s != "memory") {
        let reason = sanitizer_refused(sanitizer);
        refusals.push_str(&format!(" %{{%:sanitize({sanitizer}):%eunsnarl: {reason}}}"));
    }
    let wraps: Vec<String> = wrapped().map(|symbol| format!("--wrap={symbol}")).collect();
    let wraps = wraps.join(" ");
    let object = defined.object();

    // The directory has its own spec because a brace cannot be quoted inside braces.
    let mut specs = b"*unsnarl_dir:\n".to_vec();
    specs.extend(quote_for_specs(runtime_dir)?);
    write!(
        specs,
        "\n\n\
         *cc1_options:\n+ {compile}{refusals}\n\n\
         *link:\n+ %{{static|static-pie:%eunsnarl: {STATIC_REFUSED}}} \
         %{{!r:%{{!nostdlib:%{{!nodefaultlibs:%(unsnarl_dir)/{object}}}}}}}\n\n\
         %rename lib unsnarl_lib\n\n\
         *lib:\n%{{!static:%{{!static-pie:-L%(unsnarl_dir) -rpath %(unsnarl_dir) {wraps} \
         --push-state --no-as-needed -l{RUNTIME} --pop-state}}}} %(unsnarl_lib)\n\n"
    )?;
    Ok(specs)
}

fn sanitizer_refused(sanitizer: &str) -> String {
    format!("-fsanitize={sanitizer} has its own runtime, which cannot be combined with unsnarl")
}

fn quote_for_specs(path: &Path) -> Result<Vec<u8>> {
    let mut quoted = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        if byte == b'\n' {
            bail!(UnusableError(format!(
                "{} has a line break in its name, which gcc cannot handle: move it",
                path.display()
            )));
        }
        if !byte.is_ascii_alphanumeric() && !b"/._-+".contains(&byte) && byte.is_ascii() {
            quoted.push(b'\\');
        }
        quoted.push(byte);
    }
    Ok(quoted)
}

/// Returns clang's command line.
fn clang_args(args: &[OsString], runtime_dir: &Path, defined: Defined) -> Result<Vec<OsString>> {
    if let Some(sanitizer) = refused_sanitizer(args) {
        bail!(UsageError(sanitizer_refused(sanitizer)));
    }
    let before = [
        "-g",
        "-Qunused-arguments",
        "-fno-sanitize-link-runtime",
        "-mllvm",
        "-tsan-instrument-func-entry-exit=0",
        // Otherwise `g = g + 1` is reported only as a write.
        "-mllvm",
        "-tsan-instrument-read-before-write=1",
    ];
    let mut all: Vec<OsString> =
        before.into_iter().chain(builtins::clang_flags()).map(OsString::from).collect();
    let has_library = !args.iter().any(|arg| arg == "-nostdlib" || arg == "-nodefaultlibs");
    if links(args) && has_library {
        all.push(runtime_dir.join(defined.object()).into());
    }
    all.extend_from_slice(args);
    all.push("-fsanitize=thread".into());
    all.push("-U__SANITIZE_THREAD__".into());
    if links(args) {
        if args.iter().any(|arg| arg == "-static" || arg == "-static-pie") {
            bail!(UsageError(STATIC_REFUSED.into()));
        }
        let mut pass = |values: &[&OsStr]| {
            for value in values {
                all.push("-Xlinker".into());
                all.push((*value).to_owned());
            }
        };
        let mut directory = OsString::from("-L");
        directory.push(runtime_dir);
        pass(&[&directory, "-rpath".as_ref(), runtime_dir.as_os_str()]);
        for symbol in wrapped() {
            pass(&[format!("--wrap={symbol}").as_ref()]);
        }
        pass(&["--push-state".as_ref(), "--no-as-needed".as_ref()]);
        pass(&[format!("-l{RUNTIME}").as_ref(), "--pop-state".as_ref()]);
    }
    Ok(all)
}

/// Returns the first sanitizer in the arguments that cannot be combined with unsnarl.
fn refused_sanitizer(args: &[OsString]) -> Option<&'static str> {
    let sanitizers = args.iter().filter_map(|arg| arg.to_str()?.strip_prefix("-fsanitize="));
    sanitizers
        .flat_map(|list| list.split(','))
        .find_map(|name| REFUSED.into_iter().find(|refused| *refused == name))
}

/// Returns whether clang, called with these arguments, links a program or a shared library.
fn links(args: &[OsString]) -> bool {
    const STOPS: [&str; 8] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-r", "--precompile"];
    const TAKES_A_VALUE: [&str; 27] = [
        "-o",
        "-x",
        "-I",
        "-D",
        "-U",
        "-L",
        "-l",
        "-F",
        "-B",
        "-T",
        "-u",
        "-z",
        "-e",
        "-include",
        "-imacros",
        "-isystem",
        "-iquote",
        "-idirafter",
        "-isysroot",
        "-MF",
        "-MT",
        "-MQ",
        "-Xlinker",
        "-Xclang",
        "-Xassembler",
        "-Xpreprocessor",
        "-mllvm",
    ];
    let mut has_input = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy();
        if STOPS.contains(&&*text) {
            return false;
        }
        if TAKES_A_VALUE.contains(&&*text) {
            args.next();
        } else if !text.starts_with('-') || text == "-" {
            has_input = true;
        }
    }
    has_input
}

/// Makes sure that the file has this content. Several compilers may do so at once.
fn keep_file(path: &Path, content: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    std::fs::write(&draft, content)
        .and_then(|()| std::fs::rename(&draft, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(args: &[&str]) -> Vec<OsString> {
        args.iter().map(OsString::from).collect()
    }

    #[test]
    fn compilers_are_identified_by_version() {
        let gcc =
            |first: &str| family_of(&format!("{first}\nCopyright (C) 2022 Free Software Foundation, Inc.\n"));
        assert_eq!(gcc("gcc (Debian 12.2.0-14+deb12u1) 12.2.0"), Some(Family::Gcc { major: 12 }));
        assert_eq!(gcc("g++ (GCC) 13.2.1 20231205 (Red Hat 13.2.1-6)"), Some(Family::Gcc { major: 13 }));
        assert_eq!(gcc("x86_64-linux-gnu-gcc-9 (Ubuntu 9.4.0-1) 9.4.0"), Some(Family::Gcc { major: 9 }));
        assert_eq!(
            family_of("Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu\n"),
            Some(Family::Clang)
        );
        assert_eq!(family_of("tcc version 0.9.27 (x86_64 Linux)"), None);
    }

    #[test]
    fn gcc_receives_user_arguments_without_sanitizer() {
        let users = ["-O2", "-fsanitize=thread", "@list", "-o", "a b"];
        let args = gcc_args(&os(&users), Path::new("/rt/gcc-12.specs"), Path::new("/rt/builtins.h"));
        assert_eq!(args[..4], os(&["-g", "-specs=/rt/gcc-12.specs", "-imacros", "/rt/builtins.h"]));
        let expected = ["-O2", "-fsanitize=thread", "@list", "-o", "a b", "-fno-sanitize=thread"];
        assert_eq!(args[args.len() - expected.len()..], os(&expected));
    }

    #[test]
    fn specs_instrument_compilations_and_link_runtime_last() {
        let specs =
            String::from_utf8(gcc_specs(12, Path::new("/a {dir}; 100%"), Defined::C).unwrap()).unwrap();
        assert!(specs.starts_with("*unsnarl_dir:\n/a\\ \\{dir\\}\\;\\ 100\\%\n\n"), "{specs}");
        assert!(
            specs.contains("+ -fsanitize=thread -U__SANITIZE_THREAD__ -Wno-tsan --param tsan"),
            "{specs}"
        );
        assert!(
            specs.contains("--wrap=_ZdaPvm --push-state --no-as-needed -lunsnarl_rt --pop-state"),
            "{specs}"
        );
        assert!(specs.contains("%(unsnarl_dir)/allocations-c-"), "{specs}");
        let older = gcc_specs(10, Path::new("/rt"), Defined::C).unwrap();
        assert!(!String::from_utf8(older).unwrap().contains("--param"));
        assert!(gcc_specs(12, Path::new("/a\nb"), Defined::C).is_err());
    }

    #[test]
    fn clang_adds_runtime_only_when_linking() {
        let linked = |args: &[&str]| {
            clang_args(&os(args), Path::new("/rt"), Defined::C).unwrap().contains(&"-lunsnarl_rt".into())
        };
        assert!(linked(&["a.c", "b.o", "-o", "a"]));
        assert!(linked(&["-shared", "@objects"]));
        assert!(linked(&["-x", "c", "-"]));
        for no in
            [&["-c", "a.c"][..], &["-E", "-"], &["-M", "a.c"], &["-r", "a.o"], &["-v"], &["-o", "a"], &[]]
        {
            assert!(!linked(no), "{no:?}");
        }
    }

    #[test]
    fn clang_rejects_unsupported_sanitizers() {
        let refused =
            |args: &[&str]| clang_args(&os(args), Path::new("/rt"), Defined::C).map_err(|e| e.to_string());
        assert!(refused(&["-static", "a.o"]).unwrap_err().contains("link it dynamically"));
        assert!(refused(&["-static", "-c", "a.c"]).is_ok());
        assert!(
            refused(&["-fsanitize=undefined,address", "a.c"])
                .unwrap_err()
                .contains("=address has its own runtime")
        );
        assert!(refused(&["-fsanitize=thread,undefined", "a.c"]).is_ok());
    }

    #[test]
    fn compiler_variable_may_contain_arguments() {
        assert_eq!(split_words(OsStr::new(" ccache  gcc-12 ")), os(&["ccache", "gcc-12"]));
    }
}
