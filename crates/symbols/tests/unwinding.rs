//! Unwinding the stacks of dead programs.

mod common;

use common::{compile, line_of};
use std::{fs, path::Path, process::Command};
use unsnarl_model::Module;
use unsnarl_symbols::{Registers, StackCopy, Symbols, Unwinder};

/// Crashes three calls deep in a thread and writes registers, modules and stack to a file: those at the
/// crash, or with `IN_HANDLER` those inside the signal handler.
const CRASH: &str = r#"
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>
static char *path;
static char *stack_end;
static int module(struct dl_phdr_info *info, size_t size, void *file) {
  unsigned long end = 0;
  char self[4096] = {0};
  const char *name = info->dlpi_name;
  if (!*name) { if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) abort(); name = self; }
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_LOAD) end = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
  fprintf(file, "module %lu %lu %s\n", (unsigned long)info->dlpi_addr, end, name);
  return 0;
}
static void handler(int signal, siginfo_t *info, void *raw) {
  ucontext_t here, *context = raw;
#ifdef IN_HANDLER
  getcontext(&here);
  context = &here;
#endif
  greg_t *r = context->uc_mcontext.gregs;
  FILE *file = fopen(path, "w");
  fprintf(file, "regs %llu %llu %llu %llu %llu %llu %llu %llu\n", r[REG_RIP], r[REG_RSP], r[REG_RBP], r[REG_RBX],
          r[REG_R12], r[REG_R13], r[REG_R14], r[REG_R15]);
  dl_iterate_phdr(module, file);
  fprintf(file, "stack %llu ", r[REG_RSP]);
  for (unsigned char *at = (void *)r[REG_RSP]; (char *)at < stack_end; at++) fprintf(file, "%02x", *at);
  fprintf(file, "\n");
  fclose(file);
  _exit(0);
}
int *nowhere;
void (*wild)(int);
__attribute__((noinline)) void crash(int n) {
#ifdef WILD
  wild(n); /* the crash */
#else
  *nowhere = n; /* the crash */
#endif
  if (n > 1000) puts("far");
}
__attribute__((noinline)) int middle(int n) {
  volatile int local[40] = {n};
  crash(local[0] + 1); /* the middle */
  return local[0] + n;
}
void *worker(void *arg) {
  pthread_attr_t attr;
  void *start;
  size_t size;
  pthread_getattr_np(pthread_self(), &attr);
  pthread_attr_getstack(&attr, &start, &size);
  stack_end = (char *)start + size;
  int got = middle(*(int *)arg); /* the worker */
  return (void *)(long)got;
}
int main(int argc, char **argv) {
  path = argv[1];
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, 0);
#ifdef IN_MAIN
  extern void *__libc_stack_end;
  stack_end = __libc_stack_end;
  middle(argc); /* the main */
#else
  pthread_t thread;
  pthread_create(&thread, 0, worker, &argc);
  pthread_join(thread, 0);
#endif
  return 1;
}
"#;

fn dead(dump: &Path) -> (Registers, Vec<Module>, StackCopy) {
    let (mut regs, mut modules, mut stack) = (Registers::default(), Vec::new(), StackCopy::default());
    for line in fs::read_to_string(dump).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |nth: usize| words[nth].parse::<u64>().unwrap();
        match words[0] {
            "regs" => {
                regs = Registers {
                    rip: number(1),
                    rsp: number(2),
                    rbp: number(3),
                    rbx: number(4),
                    r12: number(5),
                    r13: number(6),
                    r14: number(7),
                    r15: number(8),
                }
            }
            "module" => {
                let path = words[3].to_owned();
                modules.push(Module { path, build_id: vec![], base: number(1), size: number(2) });
            }
            _ => {
                stack.base = number(1);
                let digits = words[2].as_bytes().chunks(2);
                stack.bytes = digits
                    .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
                    .collect();
            }
        }
    }
    (regs, modules, stack)
}

/// Returns `function:line` for each frame of the dead program, or `function` for the system's.
fn backtrace(flags: &str) -> Vec<String> {
    let program = compile("gcc", "crash.c", CRASH, &format!("-pthread -fno-inline {flags}"));
    let dump = program.with_file_name("dump");
    common::run(&program, &[dump.to_str().unwrap()]);
    let (regs, modules, stack) = dead(&dump);
    let mut symbols = Symbols::new();
    let sites = Unwinder::new().backtrace(&modules, &regs, &stack, 64);
    let output = sites
        .iter()
        .flat_map(|&site| symbols.lookup(&modules, site))
        .map(|frame| match (frame.function, frame.line) {
            (Some(function), Some(line)) if !frame.system => format!("{function}:{line}"),
            (Some(function), _) => function,
            (None, _) => "?".to_owned(),
        })
        .collect();
    assert_eq!(Unwinder::new().backtrace(&modules, &regs, &stack, 2).len(), 2, "at most two are asked for");
    output
}

fn output(functions: &[(&str, &str)]) -> Vec<String> {
    functions.iter().map(|(name, text)| format!("{name}:{}", line_of(CRASH, text))).collect()
}

const CALLS: [(&str, &str); 3] = [
    ("crash", "*nowhere = n; /* the crash */"),
    ("middle", "/* the middle */"),
    ("worker", "/* the worker */"),
];

#[test]
fn optimised_code_unwinds_by_call_frame_info() {
    for flags in [
        "-O0 -g",
        "-O1 -g -fomit-frame-pointer",
        "-O2 -g",
        "-O2 -g -no-pie -fno-pie",
        // Only .debug_frame remains.
        "-O1 -g -fomit-frame-pointer -fno-asynchronous-unwind-tables -fno-unwind-tables",
    ] {
        let found = backtrace(flags);
        assert_eq!(found[..3], output(&CALLS), "{flags}: {found:?}");
        assert!(found.len() <= 6, "the stack ends where the thread began: {found:?}");
    }
}

#[test]
fn code_without_cfi_unwinds_by_frame_pointers() {
    let flags = "-O0 -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fno-unwind-tables";
    let found = backtrace(flags);
    let names: Vec<&str> = found.iter().map(|f| f.split('+').next().unwrap()).collect();
    assert_eq!(names[..3], ["crash", "middle", "worker"], "{found:?}");
}

#[test]
fn unwinding_passes_signal_frames() {
    for flags in ["-O0 -g -DIN_HANDLER", "-O2 -g -DIN_HANDLER -fomit-frame-pointer"] {
        let found = backtrace(flags);
        let at = found.iter().position(|f| f.starts_with("crash")).unwrap_or_else(|| panic!("{found:?}"));
        assert_eq!(found[at..at + 3], output(&CALLS), "{flags}: {found:?}");
        assert!(found[0].starts_with("handler:"), "{found:?}");
    }
}

#[test]
fn signal_frames_are_recognised_by_code() {
    let flags = "-pthread -O0 -g -static -no-pie -fno-pie -fno-omit-frame-pointer -DIN_HANDLER -DIN_MAIN";
    let program = compile("gcc", "crash.c", CRASH, flags);
    let dump = program.with_file_name("dump");
    common::run(&program, &[dump.to_str().unwrap()]);
    let strip = ["--remove-section=.eh_frame", "--remove-section=.eh_frame_hdr"];
    assert!(Command::new("objcopy").args(strip).arg(&program).status().unwrap().success());
    let (regs, modules, stack) = dead(&dump);
    let mut symbols = Symbols::new();
    let sites = Unwinder::new().backtrace(&modules, &regs, &stack, 5);
    let found: Vec<Option<String>> =
        sites.iter().map(|&site| symbols.lookup(&modules, site)[0].function.clone()).collect();
    let names: Vec<&str> = found.iter().map(|f| f.as_deref().unwrap_or("?")).collect();
    assert_eq!((names[0], &names[2..]), ("handler", &["crash", "middle", "main"][..]), "{found:?}");
}

#[test]
fn wild_call_is_attributed_to_the_caller() {
    let found = backtrace("-O0 -g -DWILD");
    assert_eq!(found[..2], output(&[("crash", "wild(n); /* the crash */"), ("middle", "/* the middle */")]));
}

#[test]
fn main_stack_ends_at_program_start() {
    let found = backtrace("-O2 -g -DIN_MAIN");
    assert_eq!(found[2..3], output(&[("main", "/* the main */")]), "{found:?}");
    assert!(found.last().unwrap().starts_with("_start"), "{found:?}");
}

#[test]
fn innermost_user_frame_is_found_below_system_frames() {
    let program = compile("gcc", "crash.c", CRASH, "-pthread -O0 -g -DIN_HANDLER");
    let dump = program.with_file_name("dump");
    common::run(&program, &[dump.to_str().unwrap()]);
    let (regs, modules, stack) = dead(&dump);
    let sites = Unwinder::new().backtrace(&modules, &regs, &stack, 64);
    let (libc, rest) = (sites.iter().find(|s| s.module != sites[0].module), &sites[..]);
    let mut from_libc = vec![*libc.expect("the signal's return is in libc")];
    from_libc.extend_from_slice(rest);
    let mut symbols = Symbols::new();
    assert_eq!(symbols.user_frame(&modules, &from_libc), Some(sites[0]));
}
