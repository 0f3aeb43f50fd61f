//! Removes from a page what differs from machine to machine.

/// Replaces times, counts and addresses.
pub(crate) fn redacted(page: &str) -> String {
    let rules = [
        (r"\d+\.\d+ s\b", "T s"),
        (r"\d+ instructions traced", "N instructions traced"),
        (r"\d+ of \d+ instructions", "N of N instructions"),
        (r"in run \d+ \(", "in run N ("),
        (r", \d+ runs, T s", ", N runs, T s"),
        (r"\(race:\d+:\d+, seed \d+\)|\(\w+(:\d+)*, seed \d+\)", "(STRATEGY)"),
        (r"0x[0-9a-f]{6,}", "ADDRESS"),
    ];
    rules.iter().fold(page.to_owned(), |page, (from, to)| {
        regex::Regex::new(from).expect("a pattern").replace_all(&page, *to).into_owned()
    })
}
