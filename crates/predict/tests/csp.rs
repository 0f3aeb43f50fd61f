//! The text for refinement checkers has the right meaning: its processes are parsed and enumerated here,
//! without a refinement checker, and the results compared with brute force.

mod common;

use common::{BruteForce, random};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use unsnarl_predict::{SyncState, export};

/// The processes of a text.
#[derive(Default)]
struct Processes {
    threads: Vec<Vec<String>>,
    /// By awaited CSP event: the event that must have occurred.
    dependencies: BTreeMap<String, String>,
    met: HashSet<Vec<usize>>,
    /// Objects with a race.
    races: BTreeSet<String>,
    deadlock: bool,
}

impl Processes {
    fn read(text: &str) -> Self {
        let mut processes = Self::default();
        for line in text.lines() {
            let Some((name, words)) = line.split_once(" = ") else { continue };
            let words: Vec<String> = words.split(" -> ").map(str::to_owned).collect();
            match words.split_last() {
                Some((last, words)) if last == "SKIP" && name.starts_with("THREAD") => {
                    processes.threads.push(words.to_vec());
                }
                Some((last, [first, second])) if last == "STOP" => {
                    processes.dependencies.insert(second.clone(), first.clone());
                }
                _ => {}
            }
        }
        processes.go(vec![0; processes.threads.len()]);
        processes
    }

    /// Returns how the thread holds the lock: exclusively, and shared.
    fn holds(&self, at: &[usize], thread: usize, lock: &str) -> (bool, bool) {
        let mut held = (false, false);
        for word in &self.threads[thread][..at[thread]] {
            match word.split('.').collect::<Vec<_>>()[..] {
                ["lock", _, which] if which == lock => held.0 = true,
                ["unlock", _, which] if which == lock => held.0 = false,
                ["rlock", _, which] if which == lock => held.1 = true,
                ["runlock", _, which] if which == lock => held.1 = false,
                _ => {}
            }
        }
        held
    }

    fn may(&self, at: &[usize], thread: usize, word: &str) -> bool {
        let others = || (0..self.threads.len()).filter(|&other| other != thread);
        let is_free = match word.split('.').collect::<Vec<_>>()[..] {
            ["lock", _, lock] => others().all(|other| self.holds(at, other, lock) == (false, false)),
            ["rlock", _, lock] => others().all(|other| !self.holds(at, other, lock).0),
            _ => true,
        };
        let has_come = |word: &String| (0..at.len()).any(|t| self.threads[t][..at[t]].contains(word));
        is_free && self.dependencies.get(word).is_none_or(has_come)
    }

    fn go(&mut self, at: Vec<usize>) {
        if !self.met.insert(at.clone()) {
            return;
        }
        let next: Vec<(usize, String)> = (0..at.len())
            .filter_map(|thread| Some((thread, self.threads[thread].get(at[thread])?.clone())))
            .collect();
        let access = |word: &str| match word.split('.').collect::<Vec<_>>()[..] {
            [operation @ ("read" | "write"), _, object] => Some((operation == "write", object.to_owned())),
            _ => None,
        };
        for (at, (_, one)) in next.iter().enumerate() {
            for (_, other) in &next[at + 1..] {
                if let (Some(one), Some(other)) = (access(one), access(other))
                    && one.1 == other.1
                    && (one.0 || other.0)
                {
                    self.races.insert(one.1);
                }
            }
        }
        let able: Vec<usize> =
            next.iter().filter(|(thread, word)| self.may(&at, *thread, word)).map(|next| next.0).collect();
        self.deadlock |= able.is_empty() && !next.is_empty();
        for thread in able {
            let mut at = at.clone();
            at[thread] += 1;
            self.go(at);
        }
    }
}

#[test]
fn csp_model_has_exactly_the_real_errors() {
    let (mut races, mut deadlocks) = (0, 0);
    for seed in 0..1500 {
        // One variable: adjacent ones are one object in the paper.
        let events = random(seed, 3, 11, 1, 2);
        let all = BruteForce::free(&events);
        let text = export(&events, &SyncState::default(), &mut |addr| addr.to_string()).expect("in order");
        let processes = Processes::read(&text);
        assert_eq!(!processes.races.is_empty(), !all.races.is_empty(), "seed {seed}\n{text}");
        assert_eq!(processes.deadlock, all.stuck, "seed {seed}\n{text}");
        races += usize::from(!all.races.is_empty());
        deadlocks += usize::from(all.stuck);
    }
    assert!(races > 100 && deadlocks > 10, "{races} races, {deadlocks} deadlocks: the traces are too dull");
}
