//! The code base once had a private dialect. This test counts what is left of it, per crate, and lets the counts only fall.
//!
//! Counted are words that have a plainer synonym, and comments that are a relative clause and not a sentence ("Whether the thread
//! waits."). Write "True while the thread waits." or "Returns whether the thread waits." instead.

use regex::Regex;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// What is left: crate or directory, words, comment openings. A lower count must be written down here, a higher one is refused.
const LEFT: &[(&str, usize, usize)] = &[
    // The message about thread ids that the runtime has below, in the catalogue of errors.
    ("docs", 1, 0),
    // "Names that tell the story."
    ("programs", 1, 0),
    // "The C library does not tell where it keeps thread ids".
    ("runtime", 1, 0),
    // Colours that people "can tell apart".
    ("xtask", 1, 0),
];

const WORDS: &str = r"\b(told|tells?|telling|retell|wish(es)?|hangs? on|whoever|came of|anew|hazy|trodden|how-manieth|kin|prey|homeless)\b";
const OPENING: &str = r"(?m)^ *//[/!]? (Who|Whoever|Whether|What|Where) [^?\n]*\.$";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text files below a directory, without what tools generate.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a directory");
            left.extend(
                entries.map(|entry| entry.expect("an entry").path()).filter(|path| !path.ends_with("target")),
            );
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
            found.push(path);
        }
    }
    found
}

/// Words and openings in each crate, in xtask and in the documents.
fn counts() -> BTreeMap<String, (usize, usize)> {
    let (words, opening) = (Regex::new(WORDS).expect("a pattern"), Regex::new(OPENING).expect("a pattern"));
    let crates =
        fs::read_dir(root().join("crates")).expect("crates").map(|entry| entry.expect("an entry").path());
    let parts = crates.chain(["xtask", "docs", "programs"].map(|part| root().join(part)));
    parts
        .map(|part| {
            let name = part.file_name().expect("a name").to_string_lossy().into_owned();
            let texts = files(&part).into_iter().filter(|file| !file.ends_with("tests/language.rs"));
            let count =
                texts.map(|file| fs::read_to_string(file).expect("text")).fold((0, 0), |sum, text| {
                    (
                        sum.0 + words.find_iter(&text.to_lowercase()).count(),
                        sum.1 + opening.find_iter(&text).count(),
                    )
                });
            (name, count)
        })
        .collect()
}

#[test]
fn dialect_only_shrinks() {
    let ceilings: BTreeMap<&str, (usize, usize)> =
        LEFT.iter().map(|&(name, words, openings)| (name, (words, openings))).collect();
    let mut wrong = Vec::new();
    for (name, count) in counts() {
        let ceiling = ceilings.get(name.as_str()).copied().unwrap_or_default();
        if count != ceiling {
            wrong.push(format!("(\"{name}\", {}, {}), was {ceiling:?}", count.0, count.1));
        }
    }
    assert!(
        wrong.is_empty(),
        "plainer words for what was added, please; if a count fell, write the new one down in LEFT:\n{}",
        wrong.join("\n")
    );
}
