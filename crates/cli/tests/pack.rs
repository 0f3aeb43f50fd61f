//! `unsnarl pack`: a packed trace replays in another directory, without any of the original files.

mod common;

use common::{Place, UNSNARL};
use serde_json::Value;
use std::fs;

/// Two directories: one to pack in, and one without the original files.
struct PackDirectories(Place);

impl PackDirectories {
    fn new(name: &str) -> Self {
        let place = Place::new(name);
        for directory in ["here", "there"] {
            fs::create_dir_all(place.path(directory)).expect("a directory");
        }
        Self(place)
    }

    fn write(&self, name: &str, text: &str) {
        self.0.write(&format!("here/{name}"), text);
    }

    /// Runs unsnarl in one of the two directories; returns its output on both streams.
    #[track_caller]
    fn unsnarl(&self, at: &str, status: i32, args: &[&str]) -> (String, String) {
        let mut command = self.0.command(UNSNARL, args);
        command.current_dir(self.0.path(at)).env("TOKEN", "a-secret-of-mine");
        let output = command.output().expect("unsnarl runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        (text(&output.stdout), text(&output.stderr))
    }

    fn here(&self, status: i32, args: &[&str]) -> String {
        self.unsnarl("here", status, args).0
    }
}

/// The amount comes from a file; the account is in a separate library.
const MAIN: &str = r#"
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
extern int balance;
void pay(int);
static int amount;
static void *deposit(void *a) { pay(amount); return a; }
int main(int argc, char **argv) {
  FILE *f = fopen(argc > 1 ? argv[1] : "data/amount.txt", "r");
  if (!f || fscanf(f, "%d", &amount) != 1) return 3;
  pthread_t t[2];
  for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, deposit, 0);
  for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  assert(balance == 100 + 2 * amount);
}
"#;
const BANK: &str = "int balance = 100;\nvoid pay(int n) { int b = balance; balance = b + n; }\n";

fn bank(name: &str) -> PackDirectories {
    let place = PackDirectories::new(name);
    place.write("main.c", MAIN);
    place.write("bank.c", BANK);
    place.write("amount.txt", "10");
    place.here(0, &["cc", "-O1", "-g", "-fPIC", "-shared", "bank.c", "-o", "libbank.so"]);
    let link = ["-L.", "-lbank", "-Wl,-rpath,$ORIGIN", "-o", "main"];
    place.here(0, &[&["cc", "-O1", "-g", "-pthread", "main.c"], &link[..]].concat());
    place
}

#[test]
fn pack_replays_after_program_is_deleted() {
    let place = bank("moved");
    place.here(100, &["explore", "-o", "bug.snarl", "--", "./main", "amount.txt"]);
    let report = place.here(0, &["pack", "bug.snarl", "-o", "../there/bug.pack"]);
    assert!(report.contains("without your environment; checked: it replays"), "{report}");
    fs::remove_dir_all(place.0.path("here")).expect("gone");

    // The library exists nowhere else, so neither the loader nor the C library is this machine's.
    let (_, output_text) = place.unsnarl("there", 100, &["replay", "bug.pack"]);
    assert!(output_text.contains("reproduced: all"), "{output_text}");
    let (report, _) = place.unsnarl("there", 0, &["verify", "bug.pack"]);
    assert_eq!(report, "the pack is complete, and it replays here (libraries: from the pack)\n");
    // Other commands that take a trace also take the pack, and the sources are in it.
    let (shown, _) = place.unsnarl("there", 0, &["show", "bug.pack"]);
    assert!(shown.contains("void pay(int n)"), "{shown}");
    let (report, _) = place.unsnarl("there", 0, &["simplify", "--json", "bug.pack", "-o", "simple.snarl"]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["outcome_preserved"], true, "{report}");

    let mut bytes = fs::read(place.0.path("there/bug.pack")).expect("the pack");
    bytes.truncate(bytes.len() / 2);
    fs::write(place.0.path("there/half.pack"), bytes).expect("half a pack");
    let (_, output_text) = place.unsnarl("there", 96, &["verify", "half.pack"]);
    assert!(output_text.contains("copy it again, or pack it again"), "{output_text}");
}

#[test]
fn input_files_must_be_named_for_a_pack() {
    let place = bank("inputs");
    fs::create_dir(place.0.path("here/data")).expect("a directory");
    place.write("data/amount.txt", "20");
    place.here(100, &["explore", "-o", "bug.snarl", "--", "./main"]);
    let report = place.here(103, &["pack", "bug.snarl"]);
    assert!(report.contains("--with PATH"), "{report}");
    assert!(!place.0.path("here/bug.snarl.tar.zst").exists());
    let report = place.here(0, &["pack", "--json", "--with", "data", "bug.snarl"]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(
        (&report["pack"], &report["environment"]),
        (&"bug.snarl.tar.zst".into(), &false.into()),
        "{report}"
    );
    let inputs = report["files"].as_array().expect("files").iter().filter(|file| file["role"] == "input");
    let names: Vec<&str> = inputs.filter_map(|file| file["name"].as_str()).collect();
    assert_eq!(names, ["cwd/data/amount.txt"]);
    let (_, output_text) = place.unsnarl("here", 96, &["pack", "--with", "/etc/hostname", "bug.snarl"]);
    assert!(output_text.contains("lies outside of"), "{output_text}");
    let (_, output_text) = place.unsnarl("here", 2, &["pack", "bug.snarl.tar.zst"]);
    assert!(output_text.contains("is a pack already"), "{output_text}");
}

#[test]
fn pack_includes_environment_only_if_needed() {
    let place = PackDirectories::new("environment");
    place.write(
        "env.c",
        "#include <stdlib.h>\nint main(int c, char **v) { return c > 1 ? getenv(\"TOKEN\") != 0 : 7; }\n",
    );
    place.here(0, &["cc", "-g", "-o", "env", "env.c"]);
    let packed = |args: &[&str]| {
        place.here(100, &[&["record", "-o", "bug.snarl", "--", "./env"], args].concat());
        let report = place.here(0, &["pack", "--json", "bug.snarl"]);
        let report: Value = serde_json::from_str(&report).expect("JSON");
        report["environment"].as_bool()
    };
    assert_eq!(packed(&[]), Some(false));
    assert_eq!(packed(&["x"]), Some(true));
}
