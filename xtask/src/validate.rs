//! `cargo xtask validate`: checks the output of `unsnarl report` against published schemas.
//!
//! The schemas and the HTML checker are third-party and not kept here; they come from packages, in the versions named
//! below. That needs a network, so it is not part of `cargo xtask test`: the tests check the formats by themselves.

use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Exit status: a failure was found.
const FAILED: i32 = 100;

/// A program for each kind of failure, and the options of its hunt.
const FAILURES: &[(&str, &[&str])] = &[
    ("c/account.c", &[]),
    ("c/account.c", &["--fail-on", "race"]),
    ("c/abba_deadlock.c", &[]),
    ("c/lost_signal_deadlock.c", &[]),
    ("c/nulled_pointer_segv.c", &[]),
    ("c/check_then_act.c", &[]),
    ("c/exit_status_three.c", &[]),
    ("c/trylock_unchecked.c", &["--fail-on", "misuse"]),
    ("c/account_fixed.c", &["--check", "false"]),
    ("c/flag_reset_livelock.c", &["--max-spins", "300"]),
    ("c/after_you_livelock.c", &["--max-events", "400"]),
    ("cpp/uncaught_exception.cpp", &[]),
    ("rust/index_out_of_bounds.rs", &[]),
];

/// Awkward names for a file and an argument.
const AWKWARD: [&str; 2] = ["<&\"'> account.c", "<&\"]]>"];

pub(crate) fn validate() -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    tools::require(tools::VALIDATORS)?;
    eprintln!("building unsnarl");
    let unsnarl = workspace.build_unsnarl()?;
    let published = PublishedSchemas::fetch(&workspace.download_dir("published")?, &workspace)?;
    let directory = workspace.scratch("validate")?;
    let mut written = ReportFiles { unsnarl, directory, count: 0 };
    for (source, options) in FAILURES {
        eprintln!("{source} {}", options.join(" "));
        let source = workspace.root.join("programs").join(source);
        let name = source.file_name().context("a program has a name")?.to_string_lossy().into_owned();
        written.hunt(&source, &name, &[], options)?;
    }
    let [name, argument] = AWKWARD;
    eprintln!("names with markup");
    written.hunt(&workspace.root.join("programs/c/account.c"), name, &[argument], &[])?;

    published.sarif(&written.all("sarif")?)?;
    published.junit(&written.all("xml")?)?;
    published.html(&written.all("html")?)?;
    println!("perfetto: nobody publishes a schema; its fields are checked by the tests (formats.rs)");
    Ok(())
}

/// The published schemas and checkers.
struct PublishedSchemas {
    sarif: PathBuf,
    junit: PathBuf,
    html: PathBuf,
}

impl PublishedSchemas {
    /// Fetches them, unless they exist.
    fn fetch(into: &Path, workspace: &Workspace) -> Result<Self> {
        let crates = into.join("crates");
        let published = Self {
            sarif: crates.join("serde-sarif/src/schema.json"),
            junit: crates.join("junit-report/tests/JUnit.xsd"),
            html: into.join("package/build/dist/vnu.jar"),
        };
        if !published.sarif.exists() || !published.junit.exists() {
            eprintln!("fetching the schemas of SARIF and JUnit");
            fs::create_dir_all(into.join("src"))?;
            fs::write(into.join("src/lib.rs"), "")?;
            let manifest = "[package]\nname = \"published\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
                [dependencies]\nserde-sarif = \"=0.8.0\"\njunit-report = \"=0.9.1\"\n";
            fs::write(into.join("Cargo.toml"), manifest)?;
            let mut vendor = workspace.cargo();
            vendor.current_dir(into).args(["vendor", "--quiet"]).arg(&crates);
            output(&mut vendor, "cargo vendor")?;
        }
        if !published.html.exists() {
            eprintln!("fetching the checker of pages");
            let mut npm = Command::new("npm");
            let packed =
                output(npm.args(["pack", "--silent", "vnu-jar@26.9.27"]).current_dir(into), "npm pack")?
                    .stdout;
            let packed = String::from_utf8_lossy(&packed).trim().to_owned();
            output(Command::new("tar").args(["-xzf", &packed]).current_dir(into), "unpacking it")?;
        }
        Ok(published)
    }

    fn sarif(&self, files: &[PathBuf]) -> Result<()> {
        let mut check = Command::new(tools::PYTHON);
        check.args(["-m", "jsonschema"]);
        files.iter().for_each(|file| _ = check.arg("-i").arg(file));
        self.run_check("sarif", files, check.arg(&self.sarif))
    }

    fn junit(&self, files: &[PathBuf]) -> Result<()> {
        let mut check = Command::new("xmllint");
        self.run_check("junit", files, check.args(["--noout", "--schema"]).arg(&self.junit).args(files))
    }

    fn html(&self, files: &[PathBuf]) -> Result<()> {
        let mut check = Command::new("java");
        check.arg("-jar").arg(&self.html).args(["--errors-only", "--format", "gnu"]);
        self.run_check("html", files, check.args(files))
    }

    /// Runs a check, which prints the errors.
    fn run_check(&self, what: &str, files: &[PathBuf], check: &mut Command) -> Result<()> {
        ensure!(!files.is_empty(), "there is nothing to check as {what}");
        output(check, what)?;
        println!("{what}: {} files are valid", files.len());
        Ok(())
    }
}

/// Reports of failures.
struct ReportFiles {
    unsnarl: PathBuf,
    directory: PathBuf,
    count: usize,
}

impl ReportFiles {
    /// Builds a program under a name, hunts, and writes reports in all formats.
    fn hunt(&mut self, source: &Path, name: &str, args: &[&str], options: &[&str]) -> Result<()> {
        self.count += 1;
        let place = self.directory.join(self.count.to_string());
        fs::create_dir_all(&place)?;
        fs::copy(source, place.join(name))?;
        match source.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => {
                let manifest = format!(
                    "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
                     [[bin]]\nname = \"program\"\npath = \"{name}\"\n"
                );
                fs::write(place.join("Cargo.toml"), manifest)?;
                self.run(&place, 0, &["cargo", "build", "--quiet", "--offline"])?;
                let built = "target/unsnarl/x86_64-unknown-linux-gnu/debug/program";
                fs::copy(place.join(built), place.join("program"))?;
            }
            extension => {
                let compiler = if extension == Some("cpp") { "c++" } else { "cc" };
                self.run(&place, 0, &[compiler, "-O1", "-g", "-pthread", "-o", "program", name])?;
            }
        }
        let files = ["-o", "bug.snarl", "--html", "hunt.html", "--junit", "hunt.xml", "--", "./program"];
        self.run(&place, FAILED, &[&["hunt"], options, &files, args].concat())?;
        let files = ["--html", "bug.html", "--sarif", "bug.sarif", "--junit", "bug.xml"];
        self.run(&place, 0, &[&["report", "bug.snarl"], &files[..]].concat())
    }

    fn run(&self, place: &Path, expected: i32, args: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.unsnarl);
        command.args(args).current_dir(place).env_remove("CARGO_TARGET_DIR").stdin(Stdio::null());
        let ran = command.output().with_context(|| format!("cannot run unsnarl {}", args.join(" ")))?;
        let run_check = String::from_utf8_lossy(&ran.stderr).into_owned();
        ensure!(
            ran.status.code() == Some(expected),
            "unsnarl {} ended with {}: {run_check}",
            args.join(" "),
            ran.status
        );
        Ok(())
    }

    /// Returns all files of a kind.
    fn all(&self, extension: &str) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for number in 1..=self.count {
            for file in fs::read_dir(self.directory.join(number.to_string()))? {
                files.extend(
                    Some(file?.path()).filter(|path| path.extension().is_some_and(|e| e == extension)),
                );
            }
        }
        files.sort();
        Ok(files)
    }
}
