//! `unsnarl report` in a real browser.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A directory of a test's own.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        Self(directory)
    }

    #[track_caller]
    fn exits(&self, status: i32, args: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unsnarl"));
        let output =
            command.args(args).current_dir(&self.0).stdin(Stdio::null()).output().expect("unsnarl runs");
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The document that a browser makes of a page, after its script has run.
    fn browse(&self, page: &str) -> String {
        let profile = self.0.join("profile");
        let output = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--window-size=1200,900"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("file://{}", self.0.join(page).display()))
            .stdin(Stdio::null())
            .output()
            .expect("chromium is installed by `cargo xtask test`");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

#[test]
fn a_browser_shows_the_interleaving_before_and_after() {
    let place = Place::new("account");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/c/account.c");
    fs::copy(programs, place.0.join("account.c")).expect("a program");
    place.exits(0, &["cc", "-O1", "-g", "-pthread", "-o", "account", "account.c"]);
    place.exits(100, &["hunt", "--html", "page.html", "--", "./account"]);
    let page = fs::read_to_string(place.0.join("page.html")).expect("a page");
    for outside in ["http://", "https://", "src=", "@import"] {
        // The one address is the name of SVG.
        let found = page.replace("http://www.w3.org/2000/svg", "").contains(outside);
        assert!(!found, "the page needs something else: {outside}");
    }
    let shown = place.browse("page.html");
    for expected in [
        "assertion failed in thread 0 at account.c:33",
        "simplified ",
        "as it was found ",
        "preempts 0.2",
        "without this, the program ended normally",
        "write balance (was 100)",
        "aria-label=\"5: thread 0.1 start account.c:10\"",
        "✗ assertion failed",
        // The source beside it.
        "int current = balance;",
    ] {
        assert!(shown.contains(expected), "no `{expected}` in\n{shown}");
    }
    assert_eq!(shown.matches("class=\"run\"").count(), 2);
}

#[test]
fn what_a_program_says_is_never_markup() {
    let place = Place::new("markup");
    // In a message, an argument, a file's name and a thread's name.
    let source = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *run(void *u) { pthread_setname_np(pthread_self(), "<b id=evil>"); return u; }
int main(void) {
  pthread_t t;
  pthread_create(&t, 0, run, 0);
  pthread_join(t, 0);
  fputs("</script><script>document.title='evil'</script>", stderr);
  abort();
}
"#;
    let name = "<img src=x onerror=document.title='evil'>.c";
    fs::write(place.0.join(name), source).expect("a source");
    place.exits(0, &["cc", "-O1", "-g", "-pthread", "-o", "prog", name]);
    let argument = "</script><script>document.title='evil'</script>{{data}}{{script}}";
    place.exits(100, &["record", "-o", "bug.snarl", "--", "./prog", argument]);
    place.exits(0, &["report", "bug.snarl", "--html", "page.html"]);
    let shown = place.browse("page.html");
    assert!(shown.contains("<title>prog – ") && !shown.contains("<title>evil"), "{shown}");
    assert!(!shown.contains("<b id=") && !shown.contains("<img"), "{shown}");
    assert!(shown.contains("class=\"row event"), "the page works all the same");
}

#[test]
fn a_hundred_thousand_events_are_shown_a_screen_at_a_time() {
    let place = Place::new("many");
    let source = r#"
#include <assert.h>
#include <pthread.h>
static int hits;
static void *visit(void *a) { for (int i = 0; i < 12500; i++) { int h = hits; hits = h + 1; } return a; }
int main(void) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, visit, 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
  assert(hits == 50000);
}
"#;
    fs::write(place.0.join("many.c"), source).expect("a source");
    place.exits(0, &["cc", "-O0", "-g", "-pthread", "-o", "many", "many.c"]);
    place.exits(100, &["record", "--seed", "1", "-o", "bug.snarl", "--", "./many"]);
    place.exits(0, &["report", "bug.snarl", "--html", "page.html"]);
    let page = fs::read_to_string(place.0.join("page.html")).expect("a page");
    let events = page.split(" events, 5 threads").next().and_then(|text| text.rsplit(['"', '>']).next());
    assert!(events.and_then(|number| number.parse::<u64>().ok()) > Some(100_000), "{events:?}");
    let rows = place.browse("page.html").matches("class=\"row ").count();
    assert!((10..300).contains(&rows), "{rows} rows");
}
