//! Dependencies point one way: model ← wire, sched, trace ← runtime, exec ← the analyses; symbols and report beside
//! them; the command line on top.

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// The workspace packages that each package may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("unsnarl-model", &[]),
    ("unsnarl-semantics", &["unsnarl-model"]),
    ("unsnarl-hints", &[]),
    ("unsnarl-wire", &["unsnarl-model"]),
    ("unsnarl-sched", &["unsnarl-model"]),
    ("unsnarl-race", &["unsnarl-model", "unsnarl-semantics"]),
    ("unsnarl-trace", &["unsnarl-model", "unsnarl-semantics"]),
    ("unsnarl-insn", &[]),
    ("unsnarl-layout", &[]),
    ("unsnarl-runtime", &["unsnarl-model", "unsnarl-wire", "unsnarl-sched", "unsnarl-race", "unsnarl-insn"]),
    ("unsnarl-exec", &["unsnarl-model", "unsnarl-semantics", "unsnarl-wire", "unsnarl-symbols"]),
    ("unsnarl-search", ANALYSIS),
    ("unsnarl-simplify", ANALYSIS),
    ("unsnarl-predict", ANALYSIS),
    (
        "unsnarl-slice",
        &["unsnarl-model", "unsnarl-semantics", "unsnarl-wire", "unsnarl-race", "unsnarl-insn"],
    ),
    ("unsnarl-symbols", &["unsnarl-model"]),
    ("unsnarl-source", &[]),
    (
        "unsnarl-report",
        &["unsnarl-model", "unsnarl-semantics", "unsnarl-source", "unsnarl-symbols", "unsnarl-slice"],
    ),
    ("unsnarl-fix", ANALYSIS),
    ("unsnarl-pack", &["unsnarl-model", "unsnarl-trace", "unsnarl-symbols"]),
    (
        "unsnarl",
        &[
            "unsnarl-model",
            "unsnarl-wire",
            "unsnarl-sched",
            "unsnarl-race",
            "unsnarl-trace",
            "unsnarl-exec",
            "unsnarl-search",
            "unsnarl-simplify",
            "unsnarl-predict",
            "unsnarl-semantics",
            "unsnarl-slice",
            "unsnarl-symbols",
            "unsnarl-report",
            "unsnarl-pack",
            "unsnarl-fix",
        ],
    ),
    ("xtask", &[]),
];

const ANALYSIS: &[&str] =
    &["unsnarl-model", "unsnarl-semantics", "unsnarl-sched", "unsnarl-trace", "unsnarl-exec"];

/// Returns each package of the workspace with its dependencies, except those of tests.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let needed = |package: &Value| {
        let all = package["dependencies"].as_array().expect("a list of dependencies");
        all.iter().filter(|dependency| dependency["kind"] != "dev").map(name).collect()
    };
    packages.iter().map(|package| (name(package), needed(package))).collect()
}

fn is_ours(package: &str) -> bool {
    package == "xtask" || package == "unsnarl" || package.starts_with("unsnarl-")
}

#[test]
fn dependencies_point_one_way() {
    let mut wrong = Vec::new();
    for (package, needs) in dependencies() {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package) else {
            wrong.push(format!("{package} is new: say in xtask/tests/arrows.rs what it may depend on"));
            continue;
        };
        for needed in needs.iter().filter(|needed| is_ours(needed) && !allowed.contains(&needed.as_str())) {
            wrong.push(format!("{package} must not depend on {needed}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn model_has_no_dependencies() {
    assert_eq!(dependencies()["unsnarl-model"], Vec::<String>::new());
}

#[test]
fn hints_have_no_dependencies() {
    assert_eq!(dependencies()["unsnarl-hints"], Vec::<String>::new());
}

#[test]
fn runtime_depends_only_on_libc_and_decoder() {
    let dependencies = dependencies();
    let foreign = |package: &str| -> Vec<String> {
        dependencies[package].iter().filter(|name| !is_ours(name)).cloned().collect()
    };
    assert_eq!(foreign("unsnarl-runtime"), ["libc"]);
    assert_eq!(foreign("unsnarl-insn"), ["iced-x86"]);
}
