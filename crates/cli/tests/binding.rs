//! Library functions are bound before the program starts, and only the loader notices.

mod common;

use common::Place;

/// A program that prints the loader's and unsnarl's environment variables, in itself and in its child.
const PRINTS_ENVIRONMENT: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static void print_memory(void)
{
    static char text[1 << 16];
    FILE *file = fopen("/proc/self/environ", "r");
    size_t size = fread(text, 1, sizeof text, file);
    for (char *entry = text; entry < text + size; entry += strlen(entry) + 1)
        if (strstr(entry, "LD_BIND") || strstr(entry, "LD_PRELOAD") || strstr(entry, "UNSNARL"))
            puts(entry);
}

int main(void)
{
    print_memory();
    for (char **entry = environ; *entry; entry++)
        if (!strncmp(*entry, "LD_BIND", 7) || !strncmp(*entry, "LD_PRELOAD", 10) || !strncmp(*entry, "UNSNARL", 7))
            puts(*entry);
    fflush(stdout);
    return system("env | grep -e ^LD_BIND -e ^LD_PRELOAD -e ^UNSNARL") == 0;
}
"#;

#[test]
fn eager_binding_is_invisible_to_the_program_and_its_children() {
    let place = Place::new("environment");
    place.compile("prints", PRINTS_ENVIRONMENT, &["gcc"], &[]);
    let (stdout, _) = place.exits(0, &["record", "--", "./prints"]);
    assert_eq!(stdout, "");
}

#[test]
fn users_own_variables_are_seen_as_natively() {
    let place = Place::new("own_variables");
    place.compile("prints", PRINTS_ENVIRONMENT, &["gcc"], &[]);
    for value in ["", "1"] {
        let mut command = place.command(env!("CARGO_BIN_EXE_unsnarl"), &["record", "--", "./prints"]);
        let output = command.env("LD_BIND_NOW", value).output().expect("unsnarl");
        let expected = format!("LD_BIND_NOW={value}\n").repeat(3);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}

const CALLS_WHAT_IS_MISSING: &str = r#"
int missing(void);
int missing_too(void);
int library(int count) { return count > 1 ? missing() + missing_too() : 0; }
"#;

const CALLS_LIBRARY: &str =
    "int library(int); int main(int count, char **arguments) { (void)arguments; return library(count); }";

#[test]
fn undefined_symbols_that_are_not_called_do_not_matter() {
    let place = Place::new("undefined");
    place.compile("libmissing.so", CALLS_WHAT_IS_MISSING, &["gcc", "-shared", "-fPIC", "-w"], &[]);
    let link = ["-L.", "-l:libmissing.so", "-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined"];
    place.compile("calls", CALLS_LIBRARY, &["gcc"], &link);

    let (_, said) = place.exits(0, &["record", "-o", "t.snarl", "--", "./calls"]);
    assert!(
        said.contains("warning: library functions are bound at their first call, because `missing"),
        "{said}"
    );
    let replayed = place.json(0, &["replay", "t.snarl", "--json"]);
    assert_eq!(replayed["identical"], true, "{replayed}");

    // A call of the missing function ends the program as without unsnarl.
    let (_, said) = place.exits(100, &["record", "--", "./calls", "more"]);
    assert!(said.contains("undefined symbol: missing"), "{said}");
}

/// Opens a library lazily that calls a function of a library which is opened later, as plugin hosts do.
const OPENS_PLUGINS: &str = r#"
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    void *first = dlopen("./libfirst.so", RTLD_LAZY | RTLD_GLOBAL);
    if (!first) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void *second = dlopen("./libsecond.so", RTLD_LAZY | RTLD_GLOBAL);
    if (!second)
        return 2;
    int (*call)(void) = (int (*)(void))dlsym(first, "first");
    return call() == 7 ? 0 : 3;
}
"#;

#[test]
fn plugins_with_unresolved_symbols_are_opened_as_natively() {
    let place = Place::new("plugins");
    let library = ["gcc", "-shared", "-fPIC", "-w"];
    place.compile("libfirst.so", "int second(void); int first(void) { return second(); }", &library, &[]);
    place.compile("libsecond.so", "int second(void) { return 7; }", &library, &[]);
    place.compile("opens", OPENS_PLUGINS, &["gcc"], &[]);

    let (_, said) = place.exits(0, &["record", "-o", "t.snarl", "--", "./opens"]);
    assert!(
        said.contains("bound at their first call, because ./libfirst.so: undefined symbol: second"),
        "{said}"
    );
    let report = place.json(0, &["replay", "t.snarl", "--json"]);
    assert_eq!(report["identical"], true, "{report}");
    place.exits(0, &["explore", "--runs", "20", "--", "./opens"]);
}

/// Opens a plugin and asks nothing if that fails; asks for an error that has another reason; and looks for a function that
/// a plugin does not have.
const OPENS_SILENTLY: &str = r#"
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
    (void)arguments;
    void *absent = dlopen("./libabsent.so", RTLD_LAZY);
    printf("%d %s\n", !absent, dlerror());
    printf("%d\n", !dlerror());
    void *plugin = dlopen(count > 1 ? "./libcomplete.so" : "./libplugin.so", RTLD_LAZY);
    printf("%d\n", !!plugin);
    if (plugin && !dlsym(plugin, "nothing"))
        printf("%s\n", dlerror());
    dlopen("./libabsent.so", RTLD_LAZY);
    dlsym(RTLD_DEFAULT, "main");
    printf("%d\n", !dlerror());
    return 0;
}
"#;

#[test]
fn plugin_with_unresolved_symbol_is_opened_without_a_call_of_dlerror() {
    let place = Place::new("silent");
    let library = ["gcc", "-shared", "-fPIC", "-w"];
    place.compile("libplugin.so", "int missing(void); int call(void) { return missing(); }", &library, &[]);
    place.compile("libcomplete.so", "int call(void) { return 1; }", &library, &[]);
    place.compile("opens", OPENS_SILENTLY, &["gcc"], &[]);
    for (arguments, warns) in [(&[][..], true), (&["complete"], false)] {
        let native = place.command("./opens", arguments).output().expect("the program");
        let native = String::from_utf8_lossy(&native.stdout).into_owned();
        let command = [&["record", "-o", "t.snarl", "--", "./opens"], arguments].concat();
        let (stdout, said) = place.exits(0, &command);
        assert_eq!(stdout, native);
        let warning = "bound at their first call, because ./libplugin.so: undefined symbol: missing";
        assert_eq!(said.contains(warning), warns, "{said}");
        // A function that a program does not find is no reason for lazy binding.
        assert_eq!(said.contains("bound at their first call"), warns, "{said}");
        let report = place.json(0, &["replay", "t.snarl", "--json"]);
        assert_eq!(report["identical"], true, "{report}");
    }
}

const OPENS_BY_NAME: &str = r#"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static void *open_plugin(void *unused)
{
    void *plugin = dlopen("libplugin.so", RTLD_LAZY);
    int (*answer)(void) = plugin ? (int (*)(void))dlsym(plugin, "answer") : NULL;
    printf("%d\n", answer ? answer() : -1);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, open_plugin, NULL);
    pthread_join(thread, NULL);
    return 0;
}
"#;

/// The loader looks at its caller to find out whose RUNPATH counts.
#[test]
fn plugins_are_found_through_the_callers_runpath() {
    let place = Place::new("runpath");
    std::fs::create_dir_all(place.path("plugins")).expect("a directory");
    place.compile("plugins/libplugin.so", "int answer(void) { return 42; }", &["gcc"], &["-shared", "-fPIC"]);
    let flags = ["-Wl,-rpath,$ORIGIN/plugins", "-Wl,--enable-new-dtags"];
    place.compile("plain", OPENS_BY_NAME, &["gcc", "-pthread"], &flags);
    place.compile("optimised", OPENS_BY_NAME, &["gcc", "-O2", "-pthread"], &flags);
    place.compile("instrumented", OPENS_BY_NAME, &[env!("CARGO_BIN_EXE_unsnarl"), "cc", "-pthread"], &flags);
    for program in ["./plain", "./optimised", "./instrumented"] {
        let native = place.command(program, &[]).output().expect("the program");
        assert_eq!(String::from_utf8_lossy(&native.stdout), "42\n", "{program} natively");
        for threads in ["fibers", "kernel"] {
            let (stdout, _) =
                place.exits(0, &["record", "--threads", threads, "-o", "t.snarl", "--", program]);
            assert_eq!(stdout, "42\n", "{program}, {threads}");
        }
        let report = place.json(0, &["replay", "--json", "t.snarl"]);
        assert_eq!(report["identical"], true, "{report}");
    }
}
