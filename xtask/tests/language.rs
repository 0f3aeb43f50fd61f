//! The code base once had a private dialect. This test counts what is left of it, per crate, and lets the counts only fall.
//!
//! Counted are words that have a plainer synonym, also as parts of identifiers; comments that are a clause and not a
//! sentence ("Whether the thread waits.", "If it does not."); and types named after question words. Write "True while the
//! thread waits." or "Returns an error if it does not." instead.

use regex::Regex;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// What is left: crate or directory, words, comment openings, type names. A lower count must be written down here, a higher
/// one is refused.
const LEFT: &[(&str, usize, usize, usize)] = &[
    // Colours that people "can tell apart".
    ("xtask", 1, 0, 0),
];

const WORDS: &str = r"\b(told|tells?|telling|retell|wish(es)?|hangs? on|whoever|came of|anew|hazy|trodden|how-manieth|kin|prey|homeless|afresh|spelt|thereby|in vain|over and over|last words)\b";
const OPENING: &str =
    r"(?m)^ *//[/!]? ((Who|Whoever|Whether|What|Where|Why|How) [^?\n]*|(When|If|Those|As) [^?,:\n]*)\.$";
const TYPES: &str =
    r"\b(struct|enum|trait|type|class) (Who|Whose|What|When|Where|Why|Which|How|Whether|Then|Does)\b";

/// Endings of the files that people write.
const TEXT: &[&str] = &["rs", "md", "c", "cpp", "h", "hpp", "py", "js", "css", "html", "expect"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text files in a directory, without what tools generate.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a directory");
            left.extend(
                entries.map(|entry| entry.expect("an entry").path()).filter(|path| !path.ends_with("target")),
            );
        } else if path.extension().is_some_and(|ending| TEXT.iter().any(|text| ending == *text)) {
            found.push(path);
        }
    }
    found
}

/// The parts that are counted, by name: each crate, the other directories, and the documents in the root.
fn parts() -> BTreeMap<String, Vec<PathBuf>> {
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let crates =
        fs::read_dir(root().join("crates")).expect("crates").map(|entry| entry.expect("an entry").path());
    let others = ["xtask", "docs", "programs", "examples", "include"].map(|part| root().join(part));
    let mut parts: BTreeMap<String, Vec<PathBuf>> =
        crates.chain(others).map(|part| (name(&part), files(&part))).collect();
    let documents = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"];
    parts.insert("root".into(), documents.map(|file| root().join(file)).into());
    parts
}

/// Returns the text in lower case, with identifiers split into words.
fn split_identifiers(text: &str) -> String {
    let humps = Regex::new("([a-z0-9])([A-Z])").expect("a pattern");
    let text = humps.replace_all(text, "$1 $2").replace('_', " ").to_lowercase();
    // The verdict `cannot-tell` of `replay --program` is part of the command line's contract.
    text.replace("cannot-tell", "").replace("cannot tell", "")
}

/// Words, openings and type names in each part.
fn counts() -> BTreeMap<String, (usize, usize, usize)> {
    let [words, opening, types] =
        [WORDS, OPENING, TYPES].map(|pattern| Regex::new(pattern).expect("a pattern"));
    let count = |files: Vec<PathBuf>| {
        let texts = files.into_iter().filter(|file| !file.ends_with("tests/language.rs"));
        texts.map(|file| fs::read_to_string(file).expect("text")).fold((0, 0, 0), |sum, text| {
            (
                sum.0 + words.find_iter(&split_identifiers(&text)).count(),
                sum.1 + opening.find_iter(&text).count(),
                sum.2 + types.find_iter(&text).count(),
            )
        })
    };
    parts().into_iter().map(|(name, files)| (name, count(files))).collect()
}

#[test]
fn dialect_only_shrinks() {
    let ceilings: BTreeMap<&str, (usize, usize, usize)> =
        LEFT.iter().map(|&(name, words, openings, types)| (name, (words, openings, types))).collect();
    let mut wrong = Vec::new();
    for (name, count) in counts() {
        let ceiling = ceilings.get(name.as_str()).copied().unwrap_or_default();
        if count != ceiling {
            wrong.push(format!("(\"{name}\", {}, {}, {}), was {ceiling:?}", count.0, count.1, count.2));
        }
    }
    assert!(
        wrong.is_empty(),
        "plainer words for what was added, please; if a count fell, write the new one down in LEFT:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn identifiers_are_split_into_words() {
    assert_eq!(split_identifiers("ends_when_told, LastWords"), "ends when told, last words");
}
