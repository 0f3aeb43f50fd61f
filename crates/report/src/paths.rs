//! Shortens file names.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the last part of a path.
pub(crate) fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns a path relative to `folder` if it is inside.
pub(crate) fn relative(path: &str, folder: &str) -> String {
    let inside = path.strip_prefix(folder.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
    match inside {
        Some(rest) if !folder.is_empty() && !rest.is_empty() => rest.to_owned(),
        _ => path.to_owned(),
    }
}

/// Returns for each file the shortest suffix of its path that no other file has.
pub(crate) fn shortest<'a>(files: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let files: BTreeSet<&str> = files.collect();
    let end = |file: &'a str, parts: usize| -> &'a str {
        let cut = file.rmatch_indices('/').nth(parts - 1).map_or(0, |(at, _)| at + 1);
        &file[cut..]
    };
    files
        .iter()
        .map(|&file| {
            let unique = |parts: &usize| {
                let mine = end(file, *parts);
                mine == file || files.iter().all(|&other| other == file || end(other, *parts) != mine)
            };
            let parts = (1..).find(unique).unwrap_or(1);
            (file.to_owned(), end(file, parts).to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_distinct_paths_are_used() {
        let short = shortest(["/a/x/main.c", "/a/y/main.c", "/a/y/list.c", "main.c"].into_iter());
        let ends: Vec<&str> = short.values().map(String::as_str).collect();
        assert_eq!(ends, ["x/main.c", "list.c", "y/main.c", "main.c"]);
    }

    #[test]
    fn paths_inside_folder_are_relative() {
        assert_eq!(relative("/home/me/a/b.c", "/home/me"), "a/b.c");
        assert_eq!(relative("/home/menu/b.c", "/home/me"), "/home/menu/b.c");
        assert_eq!(relative("b.c", ""), "b.c");
    }
}
