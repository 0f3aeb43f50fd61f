//! Results of tests or runs as JUnit XML, for CI.

use std::fmt::Write;

/// One test, or one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The test binary or program that it belongs to.
    pub group: String,
    /// Its name.
    pub name: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// Its result.
    pub result: CaseResult,
}

/// Result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseResult {
    /// No failure was found; the text has details.
    Passed(String),
    /// Failures: a kind, a headline and the full text for each.
    Failed(Vec<(String, String, String)>),
    /// It was not run, for this reason.
    Skipped(String),
    /// It could not be run, for this reason.
    Error(String),
}

/// Returns a report of these cases.
#[must_use]
pub fn junit(suite: &str, cases: &[Case]) -> String {
    let count = |of: fn(&CaseResult) -> bool| cases.iter().filter(|case| of(&case.result)).count();
    let totals = format!(
        r#"name="{}" tests="{}" failures="{}" errors="{}" skipped="{}" time="{:.3}""#,
        escaped(suite),
        cases.len(),
        count(|result| matches!(result, CaseResult::Failed(_))),
        count(|result| matches!(result, CaseResult::Error(_))),
        count(|result| matches!(result, CaseResult::Skipped(_))),
        cases.iter().map(|case| case.seconds).sum::<f64>(),
    );
    // A testsuites element has no attribute for skipped tests.
    let outer =
        totals.replacen(&format!(r#" skipped="{}""#, count(|r| matches!(r, CaseResult::Skipped(_)))), "", 1);
    let mut xml =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {outer}>\n  <testsuite {totals}>\n");
    for case in cases {
        let (group, name) = (escaped(&case.group), escaped(&case.name));
        let _ =
            writeln!(xml, r#"    <testcase classname="{group}" name="{name}" time="{:.3}">"#, case.seconds);
        match &case.result {
            CaseResult::Passed(outcome) if outcome.is_empty() => {}
            CaseResult::Passed(outcome) => {
                let _ = writeln!(xml, "      <system-out>{}</system-out>", escaped(outcome));
            }
            CaseResult::Failed(failures) => {
                for (kind, headline, text) in failures {
                    let (kind, headline, text) = (escaped(kind), escaped(headline), escaped(text));
                    let _ = writeln!(
                        xml,
                        r#"      <failure type="{kind}" message="{headline}">{text}</failure>"#
                    );
                }
            }
            CaseResult::Skipped(reason) => {
                let _ = writeln!(xml, r#"      <skipped message="{}"/>"#, escaped(reason));
            }
            CaseResult::Error(reason) => {
                let _ = writeln!(xml, r#"      <error type="unusable" message="{}"/>"#, escaped(reason));
            }
        }
        xml += "    </testcase>\n";
    }
    xml + "  </testsuite>\n</testsuites>\n"
}

/// Escapes text for XML, and removes characters that XML cannot hold.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' => out.push(char),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}
