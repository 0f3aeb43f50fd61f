//! Files: operations on them are schedule points, every run of a search finds the same ones, and none of its changes
//! remains.

mod common;

use common::{Place, printed, programs};
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

const HEADERS: &str = "#include <assert.h>\n#include <fcntl.h>\n#include <pthread.h>\n#include <stdio.h>\n\
    #include <stdlib.h>\n#include <string.h>\n#include <sys/file.h>\n#include <sys/stat.h>\n#include <unistd.h>\n";

/// Two threads run `work`, then main runs `end`.
fn two_threads(work: &str, begin: &str, end: &str) -> String {
    format!(
        "{HEADERS}static void *work(void *u) {{ {work} return u; }}\n\
         int main(void) {{ {begin} pthread_t t[2];\n\
         for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, work, 0);\n\
         for (int i = 0; i < 2; i++) pthread_join(t[i], 0);\n {end} }}\n"
    )
}

fn compile(place: &Place, name: &str, source: &str) {
    place.compile(name, source, &["gcc"], &["-w"]);
}

/// Compiles a program, which then uses its directory instead of `/tmp`.
fn copy_program(place: &Place, name: &str) {
    let source = fs::read_to_string(programs().join(format!("c/{name}.c"))).expect("a program");
    let source = source.replace("/tmp/unsnarl_access_then_create", "once").replace("/tmp/unsnarl_", "");
    compile(place, name, &source);
}

/// Returns everything in a directory: type, permissions and contents of each path.
fn tree(directory: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let about = fs::symlink_metadata(&path).expect("it exists");
        let contents = if about.is_symlink() {
            fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
        } else if about.is_dir() {
            all.extend(tree(&path));
            Vec::new()
        } else {
            fs::read(&path).expect("a file")
        };
        all.insert(path.display().to_string(), (about.permissions().mode(), contents));
    }
    all
}

#[test]
fn access_then_create_race_is_found_and_replays() {
    let place = Place::new("access-then-create");
    copy_program(&place, "file_access_then_create");
    for jobs in ["1", "2"] {
        let report = place.unsnarl(100, &["explore", "-j", jobs, "--", "./file_access_then_create"]);
        assert!(report.contains("assertion failed: fd >= 0") || report.contains("fd >= 0"), "{report}");
        assert!(!place.path("once").exists(), "a search leaves no changes");
        for _ in 0..2 {
            let replay = place.json(100, &["replay", "--json"]);
            assert_eq!(
                (&replay["reproduced"], &replay["identical"]),
                (&true.into(), &true.into()),
                "{replay}"
            );
            fs::remove_file(place.path("once")).expect("a replay keeps its changes");
        }
    }
    let shown = place.unsnarl(0, &["show"]);
    assert!(shown.contains("look up once: it "), "{shown}");
    assert!(shown.contains("create or open"), "{shown}");
    let simplified = place.json(0, &["simplify", "--json"]);
    assert_eq!(simplified["outcome_preserved"], true, "{simplified}");
    assert_eq!(simplified["after"]["preemptive"], 1, "{simplified}");
}

#[test]
fn file_that_main_removed_is_absent_in_all_schedules() {
    let place = Place::new("recreated");
    copy_program(&place, "file_recreated");
    for jobs in ["1", "2"] {
        for strategy in ["portfolio", "chess:9"] {
            let args = [
                "explore",
                "--json",
                "-j",
                jobs,
                "--runs",
                "300",
                "--strategy",
                strategy,
                "--",
                "./file_recreated",
            ];
            let found = place.json(0, &args);
            assert_eq!(
                (&found["found"], found["unreproduced"].as_array().map(Vec::len)),
                (&false.into(), Some(0)),
                "{found}"
            );
        }
    }
}

#[test]
fn log_file_of_fixed_name_belongs_to_one_run() {
    let place = Place::new("log-file");
    let work = "int fd = open(\"run.log\", O_WRONLY | O_APPEND); assert(fd >= 0); assert(write(fd, \"line\\n\", 5) == 5); close(fd);";
    let begin = "close(open(\"run.log\", O_WRONLY | O_CREAT | O_TRUNC, 0600));";
    let end = "struct stat s; assert(stat(\"run.log\", &s) == 0 && s.st_size == 10);";
    compile(&place, "logs", &two_threads(work, begin, end));
    place.write("run.log", "of the user\n");
    for jobs in ["1", "2"] {
        let report = place.ends(&["explore", "-j", jobs, "--runs", "300", "--", "./logs"]);
        assert_eq!(report.status.code(), Some(0), "{}", printed(&report));
        assert!(!printed(&report).contains("seen once"), "{}", printed(&report));
        assert_eq!(place.read("run.log"), "of the user\n");
    }
}

#[test]
fn every_run_finds_the_files_of_the_beginning() {
    let place = Place::new("same-files");
    let begin = "FILE *f = fopen(\"count\", \"r+\"); int n = -1; assert(f && fscanf(f, \"%d\", &n) == 1); assert(n == 0);\n\
        rewind(f); fprintf(f, \"%d\", n + 1); fclose(f); assert(mkdir(\"made\", 0700) == 0); assert(symlink(\"x\", \"made/link\") == 0);";
    compile(&place, "counts", &two_threads("access(\"count\", R_OK);", begin, ""));
    place.write("count", "0");
    for args in [["-j", "1"], ["-j", "2"], ["--check", "test \"$(cat count)\" = 1"]] {
        let all = [&["explore", "--runs", "40", args[0], args[1]][..], &["--", "./counts"]].concat();
        let report = place.ends(&all);
        assert_eq!(report.status.code(), Some(0), "{}", printed(&report));
        assert_eq!((place.read("count").as_str(), place.path("made").exists()), ("0", false), "{args:?}");
    }
    // A recorded run is a run of the program like any other.
    place.unsnarl(0, &["record", "--", "./counts"]);
    assert_eq!((place.read("count").as_str(), place.path("made/link").is_symlink()), ("1", true));
    fs::remove_dir_all(place.path("made")).expect("a directory");
    place.write("count", "0");
    let shared = ["explore", "--share-files", "-j", "1", "--runs", "40", "--", "./counts"];
    let report = place.ends(&shared);
    assert_eq!(place.read("count"), "1", "{}", printed(&report));
}

#[test]
fn all_changes_are_undone() {
    let place = Place::new("all-changes");
    let work = "FILE *f = fopen(\"log\", \"a\"); fputs(\"more\\n\", f); fclose(f); access(\"d/f\", F_OK);";
    let begin = "\
        assert(unlink(\"d/f\") == 0); assert(rmdir(\"d\") == 0); assert(mkdir(\"d\", 0700) == 0);\n\
        assert(rename(\"modes\", \"d\") != 0 && rename(\"d\", \"modes\") != 0); assert(rename(\"a\", \"b\") == 0); assert(rename(\"d\", \"d2\") == 0); close(open(\"d2/new\", O_CREAT | O_WRONLY, 0644));\n\
        assert(truncate(\"long\", 3) == 0); assert(chmod(\"modes\", 0400) == 0); assert(link(\"long\", \"second\") == 0);\n\
        assert(unlink(\"link\") == 0); assert(symlink(\"elsewhere\", \"link\") == 0); assert(unlink(\"to-long\") == 0);\n\
        int fd = open(\"through\", O_WRONLY | O_TRUNC); assert(write(fd, \"x\", 1) == 1); close(fd);\n\
        char name[] = \"tmpXXXXXX\"; assert(mkstemp(name) >= 0); creat(\"a\", 0600); assert(mkfifo(\"fifo\", 0600) == 0);";
    compile(&place, "changes", &two_threads(work, begin, ""));
    let prepare = |file: &str, text: &str| place.write(file, text);
    fs::create_dir(place.path("d")).expect("a directory");
    for (file, text) in [
        ("d/f", "in d"),
        ("a", "was a"),
        ("b", "was b"),
        ("long", "long text"),
        ("modes", "modes"),
        ("target", "target"),
    ] {
        prepare(file, text);
    }
    for (target, link) in [("target", "link"), ("long", "to-long"), ("target", "through")] {
        std::os::unix::fs::symlink(target, place.path(link)).expect("a link");
    }
    fs::set_permissions(place.path("d"), fs::Permissions::from_mode(0o750)).expect("permissions");
    let before = tree(&place.0);
    for args in [["-j", "1"], ["-j", "2"], ["--check", "test -e d2/new"]] {
        let all = [&["explore", "--runs", "60", args[0], args[1]][..], &["--", "./changes"]].concat();
        let report = place.ends(&all);
        assert_eq!(report.status.code(), Some(0), "{}", printed(&report));
        let mut after = tree(&place.0);
        after.retain(|path, _| !path.contains(".unsnarl"));
        assert_eq!(after, before, "{args:?}: {}", printed(&report));
    }
}

#[test]
fn changes_of_children_are_seen_by_no_other_run() {
    let place = Place::new("children");
    let begin = "assert(system(\"echo line >> lines\") == 0);";
    let end =
        "struct stat s; assert(stat(\"lines\", &s) == 0 && s.st_size == 5); assert(unlink(\"lines\") == 0);";
    compile(&place, "starts", &two_threads("", begin, end));
    let report = place.ends(&["explore", "-j", "1", "--runs", "5", "--", "./starts"]);
    assert_eq!(report.status.code(), Some(0), "{}", printed(&report));
    assert!(!place.path("lines").exists());
}

#[test]
fn files_that_nobody_changes_add_no_points() {
    let place = Place::new("alone");
    let work = "for (int i = 0; i < 100; i++) { access(\"/usr\", F_OK); access(\"/proc/self\", F_OK); }\n\
        FILE *f = fopen(\"/etc/passwd\", \"r\"); char line[99]; fgets(line, 99, f); fclose(f); fopen(\"/dev/null\", \"w\");";
    let many = "for (int i = 0; i < 100; i++) { struct stat s; stat(\"x\", &s); open(\"x\", O_RDONLY); }";
    compile(&place, "reads", &two_threads(work, many, many));
    let found = place.json(0, &["record", "--json", "--", "./reads"]);
    assert!(found["stats"]["events"].as_u64() < Some(15), "{found}");
}

#[test]
fn locks_of_files_are_kept_by_each_run() {
    let place = Place::new("locks");
    let work = "int fd = open(\"lock\", O_RDWR); assert(fd >= 0 && flock(fd, LOCK_EX) == 0);\n\
        int now = n; usleep(1); n = now + 1; flock(fd, LOCK_UN); close(fd);";
    let begin = "int fd = open(\"lock\", O_RDWR | O_CREAT, 0600); assert(fd >= 0 && flock(fd, LOCK_EX) == 0);\n\
        assert(flock(fd, LOCK_UN) == 0);";
    let source = two_threads(work, begin, "assert(n == 2);")
        .replace("static void *work", "static int n;\nstatic void *work");
    compile(&place, "locks", &source);
    for jobs in ["1", "2"] {
        let report = place.ends(&["explore", "-j", jobs, "--runs", "100", "--", "./locks"]);
        assert_eq!(report.status.code(), Some(0), "{}", printed(&report));
        assert!(!printed(&report).contains("seen once"), "{}", printed(&report));
    }
}

/// A thread serves at a port, and main talks to it.
const SERVER: &str = r"
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
static struct sockaddr_in at(int port) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}
static void *serve(void *socket) {
    int peer = accept(*(int *)socket, 0, 0);
    assert(peer >= 0 && write(peer, socket, 1) == 1);
    close(peer);
    return 0;
}
int main(int argc, char **argv) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in own = at(atoi(argv[1]));
    pthread_t thread;
    char byte;
    assert(bind(listener, (void *)&own, sizeof own) == 0 && listen(listener, 5) == 0);
    pthread_create(&thread, 0, serve, &listener);
    assert(connect(client, (void *)&own, sizeof own) == 0 && read(client, &byte, 1) == 1);
    if (argc > 2) {
        struct sockaddr_in other = at(atoi(argv[2]));
        int outside = socket(AF_INET, SOCK_STREAM, 0);
        assert(connect(outside, (void *)&other, sizeof other) == 0);
    }
    pthread_join(thread, 0);
    return 0;
}
";

#[test]
fn server_with_a_fixed_port_does_not_meet_itself() {
    let place = Place::new("fixed-port");
    place.compile("serves", SERVER, &["gcc"], &[]);
    for jobs in ["1", "2"] {
        let report = place.ends(&["explore", "-j", jobs, "--runs", "60", "--", "./serves", "23871"]);
        assert_eq!(report.status.code(), Some(0), "{}", printed(&report));
        assert!(!printed(&report).contains("seen once"), "{}", printed(&report));
    }
}

#[test]
fn program_that_talks_to_another_one_keeps_the_network() {
    let place = Place::new("outside");
    place.compile("serves", SERVER, &["gcc"], &[]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    // Runs on one network need different ports, or one that can be taken at once.
    let source = SERVER.replace(
        "assert(bind(",
        "int on = 1; setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); assert(bind(",
    );
    place.compile("serves", &source, &["gcc"], &[]);
    let report = place.ends(&["explore", "-j", "2", "--runs", "40", "--", "./serves", "23872", &port]);
    assert_eq!(report.status.code(), Some(0), "{}", printed(&report));
    assert!(printed(&report).contains("uses the network outside itself"), "{}", printed(&report));
}
