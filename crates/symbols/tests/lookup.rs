//! Lookups of sites and variables in real programs.

mod common;

use common::{compile, folder, line_of, module, run, site, symbol};
use object::{Object, ObjectSymbol};
use std::{fs, path::Path, process::Command};
use unsnarl_symbols::{Frame, Symbols, demangle};

/// Prints the call site of `here`, as an offset from the program's load address.
const C: &str = r#"
#include <stdio.h>
extern char __executable_start;
int table[16];
static long hits;
__attribute__((noinline)) void here(void) {
#ifdef __PIE__
  char *base = &__executable_start;
#else
  char *base = 0;
#endif
  printf("%lu\n", (unsigned long)((char *)__builtin_return_address(0) - base));
}
static inline void step(int n) {
  table[n]++;
  here(); /* the call */
  hits++;
}
__attribute__((noinline)) void visit(int n) {
  step(n); /* the step */
  table[n + 1]++;
}
int main(int argc, char **argv) {
  static int once;
  once++;
  visit(argc);
  return once + hits > 99;
}
"#;

fn call_site(program: &Path) -> u64 {
    run(program, &[]).trim().parse::<u64>().unwrap() - 1
}

fn functions(frames: &[Frame]) -> Vec<&str> {
    frames.iter().filter_map(|f| f.function.as_deref()).collect()
}

fn look(program: &Path, offset: u64) -> Vec<Frame> {
    Symbols::new().lookup(&[module(program, 0)], site(offset))
}

#[test]
fn site_resolves_to_function_file_and_line() {
    for flags in ["-O0 -g", "-O0 -g -no-pie -fno-pie", "-O0 -g -gz=zlib", "-O0 -gdwarf-4"] {
        let program = compile("gcc", "a.c", C, flags);
        let frames = look(&program, call_site(&program));
        assert_eq!(functions(&frames), ["step"], "{flags}");
        assert_eq!(frames[0].line, Some(line_of(C, "/* the call */")), "{flags}");
        let file = program.with_file_name("a.c");
        assert_eq!(frames[0].file.as_deref(), file.to_str(), "{flags}");
        assert!(!frames[0].system);
    }
}

#[test]
fn inlined_calls_are_frames_innermost_first() {
    let program = compile("gcc", "a.c", C, "-O2 -g");
    let frames = look(&program, call_site(&program));
    assert_eq!(functions(&frames), ["step", "visit"]);
    assert_eq!(frames[0].line, Some(line_of(C, "/* the call */")));
    assert_eq!(frames[1].line, Some(line_of(C, "/* the step */")));
}

#[test]
fn symbol_and_offset_without_debug_info() {
    let program = compile("gcc", "a.c", C, "-O2");
    let at = call_site(&program);
    let (visit, _) = symbol(&program, "visit");
    let frames = look(&program, at);
    assert_eq!(functions(&frames), [format!("visit+{:#x}", at - visit)]);
    assert_eq!(frames[0].line, None);
}

#[test]
fn module_and_offset_without_symbols() {
    let program = compile("gcc", "a.c", C, "-O2 -s");
    let at = call_site(&program);
    assert_eq!(functions(&look(&program, at)), [format!("program+{at:#x}")]);
}

#[test]
fn separate_debug_file_is_found() {
    for flags in ["-O2 -g", "-O2 -g -Wl,--build-id=none"] {
        let program = compile("gcc", "a.c", C, flags);
        let folder = program.parent().unwrap();
        let objcopy = |args: &str| {
            let done = Command::new("objcopy").args(args.split(' ')).current_dir(folder).status().unwrap();
            assert!(done.success(), "objcopy {args}");
        };
        objcopy("--only-keep-debug program program.debug");
        objcopy("--strip-all program");
        let at = call_site(&program);
        assert_eq!(functions(&look(&program, at)).len(), 1);
        objcopy("--add-gnu-debuglink=program.debug program");
        assert_eq!(functions(&look(&program, at)), ["step", "visit"], "{flags}");
        let (table, _) = symbol(&folder.join("program.debug"), "table");
        assert_eq!(Symbols::new().data_symbol(&[module(&program, 0)], table).as_deref(), Some("table[0]"));
        // Another build's debug file would have wrong lines.
        fs::copy("/proc/self/exe", folder.join("program.debug")).unwrap();
        assert_eq!(functions(&look(&program, at)), [format!("program+{at:#x}")], "{flags}");
    }
}

#[test]
fn variables_are_named_with_their_offset() {
    for (flags, base) in [("-O0 -g", 0x5555_5555_4000), ("-O0 -no-pie -fno-pie", 0)] {
        let program = compile("gcc", "a.c", C, flags);
        let modules = [module(&program, base)];
        let mut symbols = Symbols::new();
        let table = base + symbol(&program, "table").0;
        // Without types, an element is known by its distance.
        let (first, fifth) =
            if flags.contains("-g") { ("table[0]", "table[4]") } else { ("table", "table+16") };
        assert_eq!(symbols.data_symbol(&modules, table).as_deref(), Some(first));
        assert_eq!(symbols.data_symbol(&modules, table + 16).as_deref(), Some(fifth));
        assert_eq!(symbols.data_symbol_of(&modules, table, 16).as_deref(), Some("table"));
        assert_eq!(
            symbols.data_symbol(&modules, base + symbol(&program, "once.0").0).as_deref(),
            Some("once")
        );
        assert_eq!(symbols.data_symbol(&modules, 0x7fff_0000_0000), None);
    }
}

#[test]
fn cpp_names_are_demangled_and_headers_are_system() {
    let source = r#"
#include <mutex>
#include <cstdio>
extern char __executable_start;
namespace bank {
std::mutex door;
struct Account {
  long cents;
  __attribute__((noinline)) void withdraw(long by) {
    std::lock_guard<std::mutex> guard(door); /* the lock */
    cents -= by;
  }
};
Account account;
}
int main() { bank::account.withdraw(5); }
"#;
    let program = compile("g++", "a.cpp", source, "-O2 -g");
    let (withdraw, size) = symbol(&program, "_ZN4bank7Account8withdrawEl");
    let modules = [module(&program, 0)];
    let mut symbols = Symbols::new();
    let lock = (withdraw..withdraw + size)
        .map(|at| symbols.lookup(&modules, site(at)))
        .find(|frames| frames.len() > 2)
        .expect("the lock is inlined");
    let outermost = lock.last().unwrap();
    assert_eq!(outermost.function.as_deref(), Some("bank::Account::withdraw"));
    assert_eq!(outermost.line, Some(line_of(source, "/* the lock */")));
    assert!(!outermost.system);
    assert!(lock[0].system, "{lock:?}");
    assert_eq!(symbols.data_symbol(&modules, symbol(&program, "_ZN4bank4doorE").0).unwrap(), "bank::door");
}

#[test]
fn rust_names_are_demangled_and_std_is_system() {
    let source = r#"
use std::sync::Mutex;
static HITS: Mutex<u32> = Mutex::new(0);
#[inline(never)]
pub fn bump() { *HITS.lock().unwrap() += 1; }
fn main() { bump(); }
"#;
    let program = compile("rustc", "a.rs", source, "-g --crate-name demo");
    let bytes = fs::read(&program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let find = |start: &str| {
        let fits = |s: &object::Symbol<'_, '_>| s.name().is_ok_and(|name| demangle(name).starts_with(start));
        file.symbols().find(fits).unwrap_or_else(|| panic!("no {start}")).address()
    };
    let modules = [module(&program, 0)];
    let mut symbols = Symbols::new();
    let bump = find("demo::bump");
    let frames = symbols.lookup(&modules, site(bump));
    assert_eq!(frames[0].function.as_deref(), Some("demo::bump"));
    assert_eq!(frames[0].line, Some(5));
    assert_eq!(symbols.data_symbol(&modules, find("demo::HITS")).as_deref(), Some("demo::HITS"));
    // The mutex's code is in the user's file, but is not user code.
    let lock = find("<std::sync::poison::mutex::Mutex");
    assert!(symbols.lookup(&modules, site(lock)).iter().all(|frame| frame.system));
    assert_eq!(symbols.user_frame(&modules, &[site(lock), site(bump)]), Some(site(bump)));
    assert_eq!(symbols.user_frame(&modules, &[site(lock)]), Some(site(lock)));
}

#[test]
fn rebuilt_file_is_ignored() {
    let program = compile("gcc", "a.c", C, "-O0 -g -Wl,--build-id");
    let at = call_site(&program);
    let build_id = unsnarl_symbols::build_id(&program);
    assert_eq!(build_id.len(), 20);
    let mut symbols = Symbols::new();
    let same = unsnarl_model::Module { build_id, ..module(&program, 0) };
    assert_eq!(functions(&symbols.lookup(std::slice::from_ref(&same), site(at))), ["step"]);
    assert!(symbols.stale().is_empty());
    let other = unsnarl_model::Module { build_id: vec![1, 2, 3], ..same };
    assert_eq!(functions(&symbols.lookup(&[other], site(at))), [format!("program+{at:#x}")]);
    assert_eq!(symbols.stale(), [program.to_str().unwrap()]);
}

#[test]
fn missing_and_damaged_files_are_tolerated() {
    assert_eq!(functions(&look(Path::new("/nowhere/libx.so"), 0x10)), ["libx.so+0x10"]);
    assert_eq!(functions(&Symbols::new().lookup(&[], site(16))), ["?+0x10"]);

    let program = compile("gcc", "a.c", C, "-O2 -g");
    let at = call_site(&program);
    let good = fs::read(&program).unwrap();
    let (table, _) = symbol(&program, "table");
    let damaged = folder().join("damaged");
    let stack = unsnarl_symbols::StackCopy { base: 0x1000, bytes: vec![0x40; 4096] };
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for round in 0..300 {
        let mut bytes = good.clone();
        if round % 5 == 0 {
            bytes.truncate(next(good.len()));
        }
        // Damage to the headers, at both ends, hurts most.
        for _ in 0..1 + round % 40 {
            let len = bytes.len().max(1);
            let spot = [next(len), next(len.min(1024)), len - 1 - next(len.min(4096))][round % 3];
            if let Some(byte) = bytes.get_mut(spot) {
                *byte = [0, 0xff, next(256) as u8][next(3)];
            }
        }
        fs::write(&damaged, bytes).unwrap();
        let modules = [module(&damaged, 0)];
        let mut symbols = Symbols::new();
        assert!(!symbols.lookup(&modules, site(at)).is_empty());
        symbols.data_symbol(&modules, table);
        unsnarl_symbols::Binary::read(&damaged).unwrap();
        let regs = unsnarl_symbols::Registers { rip: at, rsp: 0x1100, rbp: 0x1200, ..Default::default() };
        unsnarl_symbols::Unwinder::new().backtrace(&modules, &regs, &stack, 100);
    }
}

#[test]
fn texts_are_read_from_constant_data() {
    let source = r#"
#include <stdio.h>
extern char __executable_start;
const char *name = "between read and write";
int main(void) {
#ifdef __PIE__
  printf("%lu\n", (unsigned long)(name - &__executable_start));
#else
  printf("%lu\n", (unsigned long)name);
#endif
}
"#;
    for flags in ["-O1", "-O1 -no-pie -fno-pie", "-O1 -s"] {
        let program = compile("gcc", "text.c", source, flags);
        let at: u64 = run(&program, &[]).trim().parse().unwrap();
        let modules = [module(&program, 0)];
        let mut symbols = Symbols::new();
        assert_eq!(symbols.text(&modules, at).as_deref(), Some("between read and write"), "{flags}");
        assert_eq!(symbols.text(&modules, at + 8).as_deref(), Some("read and write"), "{flags}");
        assert_eq!(symbols.text(&modules, 0x7fff_0000_0000), None);
    }
}
