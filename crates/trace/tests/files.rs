//! Saving and loading.

mod looping;

use std::{collections::BTreeSet, fs, path::PathBuf, thread};
use unsnarl_trace::{check_writable, load, open, save, save_new};

/// Creates a new directory for one test.
fn directory(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path
}

fn names(directory: &PathBuf) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn saved_trace_loads_and_replaces_old_file() {
    let directory = directory("save");
    let path = directory.join("a.snarl");
    for events in [9, 99] {
        let trace = looping::trace(events);
        save(&trace, &path).unwrap();
        assert_eq!(load(&path).unwrap(), trace);
        assert_eq!(open(&path).unwrap().events(), events as u64);
    }
    assert_eq!(names(&directory), ["a.snarl"]);
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn traces_saved_at_once_get_different_names() {
    let directory = directory("new");
    let numbered = || (1..).map(|n| directory.join(format!("a-{n}.snarl")));
    let save_some = || (0..8).map(|_| save_new(&looping::trace(9), numbered()).unwrap()).collect::<Vec<_>>();
    let paths: BTreeSet<PathBuf> = thread::scope(|scope| {
        let savers: Vec<_> = (0..4).map(|_| scope.spawn(save_some)).collect();
        savers.into_iter().flat_map(|saver| saver.join().unwrap()).collect()
    });
    assert_eq!(paths, numbered().take(32).collect());
    assert_eq!(names(&directory).len(), 32, "no temporary file is left");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn failed_save_leaves_no_file() {
    let directory = directory("refuse");
    let trace = looping::trace(9);
    // A directory prevents the renaming.
    let path = directory.join("taken.snarl");
    fs::create_dir(&path).unwrap();
    let error = save(&trace, &path).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot write {}: ", path.display())), "{error}");
    assert_eq!(names(&directory), ["taken.snarl"]);

    let mut broken = trace.clone();
    broken.threads.truncate(1);
    let error = save(&broken, &directory.join("b.snarl")).unwrap_err().to_string();
    assert!(error.contains("a thread does not exist (in its events section)"), "{error}");
    assert_eq!(names(&directory), ["taken.snarl"]);

    let error = save(&trace, "/".as_ref()).unwrap_err().to_string();
    assert_eq!(error, "/ is not the name of a file; give one that ends in .snarl");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn check_of_a_path_agrees_with_saving_and_leaves_nothing() {
    let directory = directory("check");
    let trace = looping::trace(9);
    fs::create_dir(directory.join("taken.snarl")).unwrap();
    fs::write(directory.join("old.snarl"), "old").unwrap();
    for (name, fits) in
        [("taken.snarl", false), ("missing/a.snarl", false), ("new.snarl", true), ("old.snarl", true)]
    {
        let path = directory.join(name);
        assert_eq!(check_writable(&path).is_ok(), fits, "{name}");
        let mut left = names(&directory);
        left.sort();
        assert_eq!(left, ["old.snarl", "taken.snarl"]);
        assert_eq!(fs::read(directory.join("old.snarl")).unwrap(), b"old");
        assert!(fits || save(&trace, &path).is_err(), "{name}");
    }
    assert!(check_writable("/".as_ref()).is_err());
    assert!(check_writable("/dev/null".as_ref()).is_ok());
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn errors_name_the_file() {
    let directory = directory("errors");
    let path = directory.join("x.snarl");
    let error = load(&path).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot open {}: ", path.display())), "{error}");
    fs::write(&path, "hello, world").unwrap();
    let error = load(&path).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{} is not an unsnarl trace; ", path.display())), "{error}");
    assert!(load(&directory).unwrap_err().to_string().contains("cannot be read: "));
    fs::remove_dir_all(directory).unwrap();
}
