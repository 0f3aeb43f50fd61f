//! Prints how many accesses of programs are named by the source, and which are not; for `cargo xtask bench names`.

#[path = "../tests/common/accesses.rs"]
mod accesses;

use accesses::named_accesses;
use serde_json::json;
use std::path::PathBuf;

fn main() {
    let list = std::env::args().any(|argument| argument == "--list");
    for program in std::env::args().skip(1).filter(|argument| argument != "--list").map(PathBuf::from) {
        let all = named_accesses(&program);
        let named = all.iter().filter(|access| access.name.is_some()).count();
        println!("{}", json!({ "program": program, "accesses": all.len(), "named": named }));
        for access in all.iter().filter(|_| list) {
            let kind = if access.writes { "write" } else { "read" };
            let name = access.name.as_deref().unwrap_or("-");
            println!("{}:{}:{} {kind} {} {name}", access.file, access.line, access.column, access.size);
        }
    }
}
