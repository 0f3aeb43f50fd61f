//! Libraries stay linked, and programs that take nothing but memory from them run.

use crate::common::{Place, UNSNARL};

const ONLY_NEW: &str = r#"
#include <pthread.h>
static int *shared;
static void *writes(void *) { shared = new int(3); return nullptr; }
int main()
{
    pthread_t thread;
    pthread_create(&thread, nullptr, writes, nullptr);
    pthread_join(thread, nullptr);
    int *many = new int[*shared];
    bool right = *shared == 3;
    delete[] many;
    delete shared;
    return right ? 0 : 1;
}
"#;

/// With `--as-needed`, which some compilers pass by default.
#[test]
fn program_with_only_new_and_delete_runs() {
    let place = Place::new("only_new");
    place.write("new.cpp", ONLY_NEW);
    for compiler in ["g++", "clang++"] {
        for level in ["-O0", "-O2"] {
            for library in ["-Wl,--as-needed", "-static-libstdc++"] {
                let args = ["c++", level, "-pthread", library, "-o", "new", "new.cpp"];
                let output = place
                    .command(UNSNARL, &args)
                    .env("UNSNARL_CXX", compiler)
                    .output()
                    .expect("unsnarl runs");
                assert!(output.status.success(), "{compiler} {level} {library}: {output:?}");
                let (needed, _) = place.runs(0, "ldd", &["./new"]);
                assert_eq!(needed.contains("libstdc++"), library == "-Wl,--as-needed", "{needed}");
                place.runs(0, "./new", &[]);
                place.exits(0, &["record", "-o", "t.snarl", "--", "./new"]);
                place.exits(0, &["explore", "--runs", "20", "--", "./new"]);
            }
        }
    }
}

/// Linked as C, with the C++ library named, and without the object file of unsnarl.
#[test]
fn operator_new_is_found_however_the_program_is_linked() {
    let place = Place::new("linked_as_c");
    place.write("new.cpp", ONLY_NEW);
    place.unsnarl(0, &["c++", "-c", "-o", "new.o", "new.cpp"]);
    place.unsnarl(0, &["cc", "-pthread", "-Wl,--as-needed", "-o", "new", "new.o", "-lstdc++"]);
    place.runs(0, "./new", &[]);
    place.exits(0, &["record", "-o", "t.snarl", "--", "./new"]);
    let (needed, _) = place.runs(0, "ldd", &["./new"]);
    assert!(needed.contains("libstdc++"), "{needed}");
}

/// An allocator that counts, as `-ljemalloc` would be linked.
#[test]
fn allocator_that_was_asked_for_stays_linked() {
    const ALLOCATOR: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
int allocated;
void *malloc(size_t size)
{
    static void *(*next)(size_t);
    if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    allocated++;
    return next(size);
}
"#;
    const USER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    int *allocated = dlsym(RTLD_DEFAULT, "allocated");
    int before = allocated ? *allocated : 0;
    free(malloc(10));
    puts(allocated && *allocated > before ? "counted" : "dropped");
    return 0;
}
"#;
    let place = Place::new("allocator");
    place.compile("allocator", ALLOCATOR, &["gcc"], &["-fPIC", "-shared", "-fno-builtin"]);
    std::fs::rename(place.path("allocator"), place.path("libcounts.so")).expect("a library");
    for compiler in ["gcc", "clang"] {
        place.write("user.c", USER);
        let args =
            ["cc", "-O0", "-Wl,--as-needed", "-o", "user", "user.c", "-L.", "-lcounts", "-Wl,-rpath,$ORIGIN"];
        let output =
            place.command(UNSNARL, &args).env("UNSNARL_CC", compiler).output().expect("unsnarl runs");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(place.runs(0, "./user", &[]).0, "counted\n");
        assert_eq!(place.exits(0, &["record", "-o", "t.snarl", "--", "./user"]).0, "counted\n");
    }
}
