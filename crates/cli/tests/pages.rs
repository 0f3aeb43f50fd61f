//! Golden pages of `hunt` on programs as people write them, in `pages/`. The head of each program says what is true: the
//! pattern of its bug and the line at fault. `INSTA_UPDATE=always cargo test --test pages` updates the pages.

mod common;
mod redaction;

use common::{Place, UNSNARL};
use redaction::redacted;

/// Number of lines at the top of a page that have to name the pattern and the line at fault.
const TOP: usize = 12;

fn page(file: &str) -> String {
    let place = Place::new(file);
    let program = place.program(&format!("../crates/cli/tests/pages/{file}"));
    let source = place.read(file);
    let stated = |what: &str| {
        let line = source.lines().find_map(|line| line.strip_prefix(&format!("// {what}: ")));
        line.unwrap_or_else(|| panic!("{file} does not state its {what}")).to_owned()
    };
    let output =
        place.command(UNSNARL, &["hunt", "--", &format!("./{program}")]).env_remove("COLUMNS").output();
    let output = output.expect("unsnarl runs");
    assert_eq!(output.status.code(), Some(100), "{output:?}");
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    let top = page.lines().take(TOP).collect::<Vec<_>>().join("\n");
    let (pattern, line) = (stated("pattern"), stated("line"));
    assert!(top.contains(&format!("why      {pattern}")), "the pattern is {pattern}:\n{page}");
    assert!(top.contains(&line), "the line at fault is `{line}`:\n{page}");
    for nameless in ["memory#", "lock#", "cond#"] {
        assert!(!top.contains(nameless), "an object has no name:\n{page}");
    }
    redacted(&page)
}

macro_rules! pages {
    ($($name:ident: $file:literal;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), page($file));
        }
    )*};
}

pages! {
    pool_idle: "pool_idle.c";
    shutdown_count: "shutdown_count.c";
    registry_singleton: "registry_singleton.cpp";
    wrong_waiter: "wrong_waiter.c";
    inventory: "inventory.cpp";
    visits: "visits.rs";
    fifo_closed: "fifo_closed.c";
    symbols_upgrade: "symbols_upgrade.c";
    transfer: "transfer.cpp";
    drain_missed: "drain_missed.c";
    session_freed: "session_freed.cpp";
}
