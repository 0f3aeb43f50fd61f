//! Inspection of files.

mod common;

use common::{compile, folder};
use std::{fs, path::Path};
use unsnarl_symbols::{Binary, ElfKind, Libc, elf_kind, has_debug_info, is_instrumented};

const MAIN: &str = "int x; int main(void) { return x++; }";

#[test]
fn programs_and_libraries_are_distinguished() {
    for (flags, kind) in [
        ("", ElfKind::DynamicExecutable),
        ("-no-pie -fno-pie", ElfKind::DynamicExecutable),
        ("-static", ElfKind::StaticExecutable),
        ("-static-pie -fPIE", ElfKind::StaticExecutable),
        ("-shared -fPIC", ElfKind::SharedLibrary),
        ("-shared -fPIC -Wl,-soname,libx.so", ElfKind::SharedLibrary),
        ("-c", ElfKind::Relocatable),
    ] {
        assert_eq!(elf_kind(&compile("gcc", "a.c", MAIN, flags)).unwrap(), kind, "{flags}");
    }
    assert_eq!(elf_kind(Path::new("/lib/x86_64-linux-gnu/libc.so.6")).unwrap(), ElfKind::SharedLibrary);
}

#[test]
fn dynamic_program_lists_linker_and_libraries() {
    let binary = Binary::read(&compile("gcc", "a.c", MAIN, "")).unwrap();
    assert_eq!(binary.interpreter.as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
    assert_eq!(binary.needed, ["libc.so.6"]);
    assert_eq!(binary.libc(), Libc::Glibc);
    let musl = Binary { interpreter: Some("/lib/ld-musl-x86_64.so.1".to_owned()), needed: vec![], ..binary };
    assert_eq!(musl.libc(), Libc::Musl);
}

#[test]
fn debug_info_and_instrumentation_are_detected() {
    let plain = compile("gcc", "a.c", MAIN, "");
    assert!(!has_debug_info(&plain) && !is_instrumented(&plain));
    assert!(has_debug_info(&compile("gcc", "a.c", MAIN, "-g")));

    let calls = "void __tsan_init(void); void __tsan_func_entry(void *); int main(void) { __tsan_init(); __tsan_func_entry(0); return 0; }";
    let open = Binary::read(&compile("gcc", "a.c", calls, "-shared -fPIC")).unwrap();
    assert!(open.instrumented && !open.contains_tsan);

    let own = "void __tsan_init(void) {} int main(void) { __tsan_init(); return 0; }";
    let closed = Binary::read(&compile("gcc", "a.c", own, "")).unwrap();
    assert!(closed.instrumented && closed.contains_tsan);
}

#[test]
fn rust_panic_count_is_found_in_all_manglings() {
    assert_eq!(Binary::read(&compile("gcc", "a.c", MAIN, "")).unwrap().panic_count, None);
    for path in [
        "_RNvNtNtCs1234_3std9panicking11panic_count18GLOBAL_PANIC_COUNT",
        "_ZN3std9panicking11panic_count18GLOBAL_PANIC_COUNT17h0123456789abcdefE",
    ] {
        let source = format!("long {path}, {path}_other; int main(void) {{ return 0; }}");
        let binary = Binary::read(&compile("gcc", "a.c", &source, "")).unwrap();
        assert!(binary.panic_count.is_some_and(|address| address % 8 == 0), "{path}");
    }
}

#[test]
fn rust_lock_slow_paths_are_found_in_all_manglings() {
    for (path, is_lock_slow_path) in [
        ("_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex14lock_contended", true),
        ("_ZN3std3sys4sync6rwlock5futex6RwLock15write_contended17h0123456789abcdefE", true),
        ("_ZN4mine5Mutex14lock_contended17h0123456789abcdefE", false),
    ] {
        let source = format!("int {path}(int *x) {{ return ++*x; }} int main(void) {{ return 0; }}");
        let spin_functions = Binary::read(&compile("gcc", "a.c", &source, "")).unwrap().spin_functions;
        assert_eq!(
            spin_functions.iter().filter(|function| !function.is_empty()).count(),
            is_lock_slow_path.into(),
            "{path}"
        );
    }
}

#[test]
fn functions_of_rusts_library_that_order_threads_are_found_in_all_manglings() {
    for (path, orders) in [
        ("_RNvMs0_NtNtNtNtCs1234_3std3sys4sync4once5futexNtB5_4Once4call", true),
        ("_RNvNtNtCs1234_3std6thread9functions4park", true),
        ("_ZN3std6thread4park17h0123456789abcdefE", true),
        ("_RNvMs1_NtNtCs1234_3std2io5stdioNtB5_6Stdout4lock", true),
        ("_ZN4mine6thread4park17h0123456789abcdefE", false),
        ("_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex14lock_contended", false),
    ] {
        let source = format!("int {path}(int *x) {{ return ++*x; }} int main(void) {{ return 0; }}");
        let functions = Binary::read(&compile("gcc", "a.c", &source, "")).unwrap().ordering_functions;
        assert_eq!(functions.len(), usize::from(orders), "{path}");
    }
}

#[test]
fn go_programs_are_detected() {
    let source = "__attribute__((section(\".go.buildinfo\"), used)) char info[] = \"go\"; int main(void) { return 0; }";
    assert!(Binary::read(&compile("gcc", "a.c", source, "")).unwrap().is_go);
}

#[test]
fn foreign_binaries_are_identified() {
    let folder = folder();
    let kind = |bytes: &[u8]| {
        fs::write(folder.join("file"), bytes).unwrap();
        elf_kind(&folder.join("file")).unwrap()
    };
    assert_eq!(kind(b"#! /usr/bin/env python3\nprint()"), ElfKind::Script("/usr/bin/env python3".to_owned()));
    assert_eq!(kind(b"hello"), ElfKind::NotElf);
    assert_eq!(kind(b""), ElfKind::NotElf);
    assert_eq!(kind(b"\x7fELF"), ElfKind::NotElf);
    let mut program = fs::read(compile("gcc", "a.c", MAIN, "")).unwrap();
    program[18] = 183;
    assert_eq!(kind(&program), ElfKind::WrongMachine(183));
    program[4] = 1;
    assert_eq!(kind(&program), ElfKind::Bits32);
    let missing = elf_kind(&folder.join("nothing")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read ") && missing.contains("nothing: No such file"), "{missing}");
}
