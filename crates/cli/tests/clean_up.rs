//! Nothing stays behind: no process, no file, however unsnarl ends.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const UNSNARL: &str = env!("CARGO_BIN_EXE_unsnarl");

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clean-up").join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("tmp")).expect("a directory");
        Self(path)
    }

    /// A program of this name, so that its processes can be told from all others.
    fn compile(&self, name: &str, source: &str) {
        fs::write(self.0.join(format!("{name}.c")), source).expect("a file");
        let mut gcc = Command::new("gcc");
        let output = gcc.args(["-O1", "-g", "-pthread", "-o", name]).arg(format!("{name}.c"));
        let output = output.current_dir(&self.0).output().expect("a compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn start(&self, args: &[&str]) -> Child {
        // Who runs the tests in the background may ignore interrupts, and that is inherited.
        Command::new("env")
            .args(["--default-signal=INT,TERM", UNSNARL])
            .args(args)
            .env("TMPDIR", self.0.join("tmp"))
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("unsnarl runs")
    }

    /// The processes that execute this program.
    fn processes(&self, name: &str) -> Vec<u32> {
        let wanted = self.0.join(name);
        let numbers = fs::read_dir("/proc").expect("processes").flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers
            .filter(|number: &u32| {
                fs::read_link(format!("/proc/{number}/exe")).is_ok_and(|program| program == wanted)
            })
            .collect()
    }

    /// Waits until there are processes of this program, or none.
    fn wait_for(&self, name: &str, some: bool) {
        let begin = Instant::now();
        while self.processes(name).is_empty() == some {
            assert!(begin.elapsed() < Duration::from_secs(60), "{name} {some}: {:?}", self.processes(name));
            std::thread::yield_now();
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let directories = [self.0.clone(), self.0.join(".unsnarl"), self.0.join("tmp"), "/dev/shm".into()];
        let entries = directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        // Others use shared memory too.
        let ours = |path: &Path| !path.starts_with("/dev/shm") || path.to_string_lossy().contains("unsnarl");
        files.retain(|path| !path.ends_with(".unsnarl") && ours(path));
        files.sort();
        files
    }
}

const ENDLESS: &str = "static volatile int stop;\nint main(void) { while (!stop) {} }";

#[test]
fn a_killed_or_interrupted_unsnarl_takes_its_programs_with_it() {
    let place = Place::new("killed");
    place.compile("endless", ENDLESS);
    let before = place.files();
    for (signal, command) in [
        ("-KILL", &["record", "--", "./endless"][..]),
        ("-KILL", &["explore", "-j", "2", "--", "./endless"]),
        ("-INT", &["record", "--", "./endless"]),
        ("-INT", &["explore", "-j", "2", "--", "./endless"]),
        ("-TERM", &["explore", "--", "./endless"]),
    ] {
        let mut unsnarl = place.start(command);
        place.wait_for("endless", true);
        let sent =
            Command::new("kill").args([signal, &unsnarl.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        unsnarl.wait().expect("unsnarl ends");
        place.wait_for("endless", false);
        assert_eq!(place.files(), before, "{signal} {command:?}");
    }
}

#[test]
fn who_a_run_leaves_behind_is_gone_before_the_next_one() {
    let place = Place::new("left");
    place.compile("endless", ENDLESS);
    place.compile("leaver", "#include <stdlib.h>\nint main(void) { return system(\"./endless &\"); }");
    for command in [&["record", "--", "./leaver"][..], &["explore", "--runs", "5", "--", "./leaver"]] {
        let status = place.start(command).wait().expect("unsnarl ends");
        assert_eq!(status.code(), Some(0), "{command:?}");
        place.wait_for("endless", false);
    }
}
