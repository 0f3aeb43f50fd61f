//! The commands in README and the tutorial are run, and print what the documents show.
//!
//! A `console` block has commands after `$ ` and, below each, its output on both streams; a line `…` stands for omitted
//! lines.

mod common;

use common::{Place, UNSNARL};
use regex::Regex;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the commands of a document, each with the lines that follow it.
fn commands(document: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside => {}
            _ => match line.strip_prefix("$ ") {
                Some(command) => found.push((command.to_owned(), Vec::new())),
                None => found.last_mut().expect("a command first").1.push(line.to_owned()),
            },
        }
    }
    found
}

/// Replaces text that differs from run to run, or with the compiler.
fn redacted(text: &str) -> String {
    let rules = [
        (r"\d+\.\d+ s\b", "T s"),
        (r"\d+ instructions traced", "N instructions traced"),
        (r"\d+ of \d+ instructions", "N of N instructions"),
        (r"(?m)^found .*", "found …"),
        (r"\d+ runs, T s", "N runs, T s"),
        (r"\d+ distinct", "N distinct"),
    ];
    rules.iter().fold(text.to_owned(), |text, (from, to)| {
        Regex::new(from).expect("a pattern").replace_all(&text, *to).into_owned()
    })
}

/// Returns the first part of the shown lines that is not printed in order.
fn missing(shown: &[String], printed: &str) -> Option<String> {
    let printed: Vec<String> = redacted(printed).lines().map(|line| line.trim_end().to_owned()).collect();
    let shown: Vec<String> = shown.iter().map(|line| redacted(line).trim_end().to_owned()).collect();
    let mut at = 0;
    // Unless lines are omitted before them, the first shown lines are the first printed ones.
    let mut anywhere = false;
    for part in shown.split(|line| line == "…") {
        if !part.is_empty() {
            let fits = |from: usize| printed[from..].starts_with(part);
            let found =
                if anywhere { (at..printed.len()).find(|&from| fits(from)) } else { fits(at).then_some(at) };
            match found {
                Some(from) => at = from + part.len(),
                None => return Some(part.join("\n")),
            }
        }
        anywhere = true;
    }
    (shown.last().is_none_or(|line| line != "…") && at < printed.len())
        .then(|| "what comes after it".to_owned())
}

/// Runs a document's commands in a directory with copies of these files, at these paths.
fn holds(name: &str, document: &str, files: &[(&str, &str)]) {
    let place = Place::new(name);
    for (file, to) in files {
        let to = place.path(to);
        fs::create_dir_all(to.parent().expect("a directory")).expect("a directory");
        fs::copy(root().join(file), to).expect(file);
    }
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", Path::new(UNSNARL).parent().expect("a directory").display());
    let text = fs::read_to_string(root().join(document)).expect("a document");
    let commands = commands(&text);
    assert!(commands.len() > 2, "no commands in {document}");
    let mut directory = String::from(".");
    for (command, shown) in commands {
        if let Some(entered) = command.strip_prefix("cd ") {
            entered.clone_into(&mut directory);
        }
        let mut shell = place.command("sh", &["-c", &format!("exec 2>&1\n{command}")]);
        shell.current_dir(place.path(if command.starts_with("cd ") { "." } else { &directory }));
        shell.env("PATH", &path).env_remove("COLUMNS").env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        let output = shell.output().expect("a shell");
        let printed = String::from_utf8_lossy(&output.stdout);
        let printed = printed.replace(UNSNARL, "unsnarl");
        if let Some(missing) = missing(&shown, &printed) {
            panic!("{document}: `{command}` does not print\n{missing}\nbut\n{printed}");
        }
    }
}

#[test]
fn readme_shows_actual_output() {
    let files = ["examples/account.c", "programs/c/abba_deadlock.c"];
    holds("readme", "README.md", &files.map(|file| (file, file)));
}

#[test]
fn tutorial_shows_actual_output() {
    let names = ["thumbs.c", "queue.h", "queue.c", "Makefile", "fix.patch"];
    let files = names.map(|name| (format!("docs/tutorial/{name}"), name));
    holds("tutorial", "docs/tutorial.md", &files.each_ref().map(|(file, name)| (file.as_str(), *name)));
}

#[test]
fn documented_lines_must_be_printed() {
    let shown = |lines: &[&str]| -> Vec<String> { lines.iter().map(|&line| line.to_owned()).collect() };
    let printed = "one\ntwo\nthree\nfour 1.25 s\n";
    for fine in [
        &["one", "two", "three", "four 9.99 s"][..],
        &["one", "…"],
        &["…", "three", "…"],
        &["…", "four 0.00 s"],
    ] {
        assert_eq!(missing(&shown(fine), printed), None, "{fine:?}");
    }
    for wrong in [
        &["one"][..],
        &["two", "…"],
        &["…", "three"],
        &["…", "two", "one", "…"],
        &["one", "two", "3", "four 1.25 s"],
    ] {
        assert!(missing(&shown(wrong), printed).is_some(), "{wrong:?}");
    }
}

/// An error message in a source file.
struct Message {
    /// The macro, type or function that gets it.
    head: String,
    text: String,
}

/// Returns the error messages in a source file, without its tests.
fn messages(source: &str) -> Vec<Message> {
    let source = source.split("mod tests").next().unwrap_or_default();
    let heads = [
        r"#\[error",
        "bail!",
        "anyhow!",
        "UsageError",
        "UnusableError",
        "NotThisBuild",
        "InconsistentTrace",
        "end::refuse",
        "Refused",
        "CannotRestore",
        "wrong",
        "return Err",
        "GdbError",
    ];
    let message = format!(r#"({})\((?:format!\()?\s*"((?:[^"\\]|\\.|\\\n)*)""#, heads.join("|"));
    let message = Regex::new(&message).expect("a pattern");
    let found = message.captures_iter(source);
    found.map(|found| Message { head: found[1].to_owned(), text: found[2].to_owned() }).collect()
}

/// Returns the first fixed words of a message.
fn fixed(message: &str) -> Option<&str> {
    let parts = message.split(['{', '`', ';', ':', '(', ',', '%', '\\', '\n']);
    let mut parts = parts.map(|part| part.rsplit('}').next().unwrap_or_default().trim());
    parts.find(|part| part.len() > 8)
}

/// Returns the entries of the catalogue: rows of tables and items of lists.
fn entries(catalogue: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in catalogue.lines() {
        match entries.last_mut() {
            Some(entry) if line.starts_with("  ") => {
                entry.push(' ');
                entry.push_str(line.trim());
            }
            _ => entries.push(line.to_owned()),
        }
    }
    entries
}

/// Messages that no user sees: bugs in unsnarl itself, and parts of a message that is in the catalogue.
const INTERNAL: &[&str] = &["it has no such Policy", "it has no such kind of end", "the trace has %d events"];

#[test]
fn error_catalogue_contains_all_messages_with_their_status() {
    let catalogue = fs::read_to_string(root().join("docs/errors.md")).expect("a catalogue");
    let entries = entries(&catalogue);
    let (mut seen, mut missing) = (0, Vec::new());
    let mut left = vec![root().join("crates")];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let skipped = ["tests", "bench", "target"].iter().any(|name| path.ends_with(name));
            let entries =
                fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path());
            left.extend(entries.filter(|_| !skipped));
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            for Message { head, text } in messages(&fs::read_to_string(&path).expect("a source")) {
                seen += 1;
                let Some(words) = fixed(&text).filter(|words| !INTERNAL.contains(words)) else { continue };
                let status = match head.as_str() {
                    "UsageError" => Some(true),
                    "UnusableError" | "NotThisBuild" => Some(false),
                    _ => None,
                };
                let fits = |entry: &&String| {
                    entry.contains(words) && status.is_none_or(|usage| usage == entry.contains("(status 2)"))
                };
                if entries.iter().find(fits).is_none() {
                    let file = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
                    missing.push(format!("{file}: {head}: {words}"));
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} messages were found");
    assert!(
        missing.is_empty(),
        "docs/errors.md lacks them, or has them with another status:\n{}",
        missing.join("\n")
    );
}
