//! docs/operations.md is the specification of all operations: the tables at the heads of the files of `unsnarl-semantics`,
//! which define them. `UNSNARL_UPDATE=1` writes it.

use std::{env, fs, path::Path};

/// The files of the families, in the order of the document.
const FAMILIES: &[&str] = &[
    "memory",
    "mutex",
    "rwlock",
    "cond",
    "semaphore",
    "barrier",
    "once",
    "futex",
    "thread",
    "descriptor",
    "file",
    "signal",
    "scheduling",
];

const HEAD: &str = "\
# Operations

Every event of a trace is one of these operations. The tables say when an operation is enabled, what it does, what it
touches, and which happens-before edges it takes part in. Two operations of different threads depend on each other if
they touch a common resource and one of them writes it; all others are independent, and their order does not matter.

An operation with a deadline that would have to wait is enabled if time passes. \"Unknown\" means that events do not show
it, because the kernel or another process decides.

The tables are part of the code that implements them, `crates/semantics`. Tests compare it with an independent simulator,
with the model that schedules real programs, and with replays in which independent operations are swapped.
";

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the documentation at the head of a file.
fn head(family: &str) -> String {
    let path = root().join(format!("crates/semantics/src/{family}.rs"));
    let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = source.lines().take_while(|line| line.starts_with("//!"));
    lines.map(|line| line.trim_start_matches("//!").trim_start().to_owned() + "\n").collect()
}

/// Returns the section of a family: its first sentence becomes the title.
fn section(family: &str) -> String {
    let head = head(family);
    let (title, rest) = head.split_once(['.', ':']).expect("a title");
    assert!(
        rest.contains("| operation | enabled | effect | touches | happens-before |"),
        "{family} has no table"
    );
    format!("\n## {title}\n\n{}\n", rest.trim())
}

#[test]
fn document_has_the_tables_of_the_code() {
    let expected = HEAD.to_owned() + &FAMILIES.iter().map(|family| section(family)).collect::<String>();
    let path = root().join("docs/operations.md");
    if env::var_os("UNSNARL_UPDATE").is_some() {
        fs::write(&path, &expected).expect("the document can be written");
    }
    let actual = fs::read_to_string(&path).unwrap_or_default();
    assert!(actual == expected, "docs/operations.md differs from the code: UNSNARL_UPDATE=1 writes it");
}
