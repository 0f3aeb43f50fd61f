//! Library functions are bound before the program starts, and only the loader notices.

mod common;

use common::Place;

/// A program that prints the loader's and unsnarl's environment variables, in itself and in its child.
const PRINTS_ENVIRONMENT: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

int main(void)
{
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
    assert!(said.contains("library functions are bound at their first call, because `missing"), "{said}");
    let replayed = place.json(0, &["replay", "t.snarl", "--json"]);
    assert_eq!(replayed["identical"], true, "{replayed}");

    // A call of the missing function ends the program as without unsnarl.
    let (_, said) = place.exits(100, &["record", "--", "./calls", "more"]);
    assert!(said.contains("undefined symbol: missing"), "{said}");
}
