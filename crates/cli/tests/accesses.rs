//! Accesses that compilers and the C library hide: builtins that are expanded after instrumentation, buffers of library
//! functions and of system calls, bit-fields, and what a thread does after it has created another one.

mod common;

use common::{Place, UNSNARL};
use std::process::Command;

/// A writer changes a text by one function while the main thread looks at it twice.
const WRITER: &str = r#"
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
static char name[16] = "unsnarl", other[16] = "";
static int kind;
static void *change(void *unused) {
  switch (kind) {
    case 0: memset(name, 0, 8); break;
    case 1: memcpy(name, other, 8); break;
    case 2: strcpy(name, ""); break;
    case 3: strncpy(name, "", 8); break;
    case 4: snprintf(name, sizeof name, "%s", ""); break;
    case 5: memmove(name, other, 8); break;
    case 6: bzero(name, 8); break;
    case 7: sprintf(name, "x%c", 0); break;
  }
  return unused;
}
int main(int count, char **args) {
  kind = atoi(args[1]);
  pthread_t thread;
  pthread_create(&thread, 0, change, 0);
  volatile char *look = name;
  char first = look[0];
  char second = look[kind == 2 || kind == 4 ? 0 : 1];
  assert(!(first == 'u' && second == 0));
  pthread_join(thread, 0);
  return count - 2;
}
"#;

fn exists(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn builtins_are_accesses_at_every_level_with_every_compiler() {
    let place = Place::new("builtins");
    for compiler in ["gcc", "clang"].into_iter().filter(|compiler| exists(compiler)) {
        for (nth, flags) in ["-O0", "-O1", "-O2", "-O3", "-O2 -D_FORTIFY_SOURCE=2"].into_iter().enumerate() {
            let name = format!("{compiler}{nth}");
            place.write(&format!("{name}.c"), WRITER);
            let file = format!("{name}.c");
            let usual = ["cc", "-g", "-pthread", "-o", &name, &file];
            let args: Vec<&str> = usual.into_iter().chain(flags.split(' ')).collect();
            let built =
                place.command(UNSNARL, &args).env("UNSNARL_CC", compiler).output().expect("unsnarl runs");
            assert!(built.status.success(), "{}", common::printed(&built));
            for kind in 0..8 {
                let report =
                    place.ends(&["explore", "--runs", "200", "--", &format!("./{name}"), &kind.to_string()]);
                assert_eq!(
                    report.status.code(),
                    Some(100),
                    "{compiler} {flags}, function {kind}: {}",
                    common::printed(&report)
                );
            }
        }
    }
}

/// Uses that must compile although builtins are calls: constant expressions, macros and headers of the C++ library.
const USES: &str = r#"
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>
static_assert(__builtin_strlen("four") == 4, "a constant");
template <class T, class U> struct Both { T t; U u; };
struct Pair { int a[2]; };
int main() {
  std::vector<Pair> all(4);
  std::vector<Pair> copy = all;
  std::array<char, 16> text{};
  std::copy(copy.begin(), copy.end(), all.begin());
  std::fill(text.begin(), text.end(), 'x');
  std::map<std::string, int> counts{{"one", 1}};
  Pair pair;
  __builtin_memset(&pair, 0, sizeof(Pair));
  __builtin_memcpy(&pair, &all[0], sizeof(Pair));
  Both<int, char> both;
  __builtin_memset(&both, 0, all.empty() ? 0 : sizeof(Both<int, char>));
  char line[8];
  __builtin_snprintf(line, sizeof line, "%d%s", pair.a[0], "x");
  std::string word = std::to_string(counts["one"]) + line;
  return both.t == 0 && word == "10x" && std::strlen(line) == 2 ? 0 : 1;
}
"#;

#[test]
fn programs_that_name_builtins_compile() {
    let place = Place::new("uses");
    place.write("uses.cpp", USES);
    for standard in ["c++11", "c++17", "c++20"] {
        for level in ["-O0", "-O2"] {
            let standard = format!("-std={standard}");
            let flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-D_FORTIFY_SOURCE=2"];
            let usual = ["c++", &standard, level, "-o", "uses", "uses.cpp"];
            let flags = if level == "-O0" { &flags[..5] } else { &flags[..] };
            place.unsnarl(0, &[&usual, flags].concat());
            place.runs(0, &place.path("uses").display().to_string(), &[]);
        }
    }
    place.write(
        "old.c",
        "#include <string.h>\n#include <stdio.h>\n\
         int main(void) { char a[8]; memset(a, 0, sizeof a); strcpy(a, \"abc\"); __builtin_memcpy(a, \"xyz\", 4);\n\
         sprintf(a, \"%d\", 5); return strcmp(a, \"5\") + (int)strlen(a) - 1; }\n",
    );
    for standard in ["-std=c90", "-std=c99", "-std=gnu17"] {
        place.unsnarl(0, &["cc", standard, "-pedantic-errors", "-Wall", "-Werror", "-o", "old", "old.c"]);
        place.runs(0, &place.path("old").display().to_string(), &[]);
    }
}

#[test]
fn programs_with_precompiled_headers_compile() {
    let place = Place::new("precompiled");
    place.write("all.h", "#pragma once\n#include <string.h>\nstatic inline int one(void) { return 1; }\n");
    place.write("main.c", "#include \"all.h\"\nint main(void) { return one() - 1; }\n");
    place.unsnarl(0, &["cc", "-x", "c-header", "all.h", "-o", "all.h.gch"]);
    place.unsnarl(0, &["cc", "-include", "all.h", "-Winvalid-pch", "-Werror", "main.c", "-o", "main"]);
    place.runs(0, &place.path("main").display().to_string(), &[]);
}

#[test]
fn code_after_a_creation_can_come_second_without_instrumentation() {
    let place = Place::new("creation");
    let source =
        std::fs::read_to_string(common::programs().join("c/published_after_create.c")).expect("the program");
    place.compile("plain", &source, &["gcc"], &[]);
    let found = place.json(100, &["explore", "--json", "--", "./plain"]);
    assert_eq!(found["outcome"]["kind"], "signal", "{found}");
    let trace = found["trace"].as_str().expect("a path");
    let replayed = place.json(100, &["replay", trace, "--json"]);
    assert_eq!(replayed["identical"], true, "{replayed}");
}
