//! Soundness by experiment: deleting or changing a statement outside the slice does not change the failing value.
//!
//! Random programs of two threads work on shared numbers and return one of them as their status. Each is compiled
//! twice: unchanged, to be sliced, and with a switch for each statement, so that any one of them can be skipped or
//! compute something else. The changed program follows the recorded schedule: context switches are at locks only, and
//! those are not changed.

use super::{Place, slice_of};
use std::{collections::BTreeSet, fmt::Write, process::Command};

/// A pseudo-random generator.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A program and the lines of its statements.
struct Random {
    text: String,
    statements: Vec<u64>,
}

impl Random {
    fn new(seed: u64) -> Self {
        let mut program = Self { text: String::new(), statements: Vec::new() };
        let mut draw = Draw(seed);
        program.line("#include <pthread.h>");
        program.line("#include <stdlib.h>");
        program.line("#ifdef MUTANTS");
        program.line("static long mutant;");
        program.line("#define SET(n, to, value) if (mutant != n) to = mutant == 1000 + n ? 77 : (value)");
        program.line("#define IF(n, condition) if (mutant % 1000 != n && (condition))");
        program.line("#else");
        program.line("#define SET(n, to, value) to = (value)");
        program.line("#define IF(n, condition) if (condition)");
        program.line("#endif");
        program.line("static volatile unsigned v[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };");
        program.line("static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;");
        for name in ["one", "two"] {
            let _ = writeln!(program.text, "static void *{name}(void *p)\n{{");
            for _ in 0..4 {
                program.block(&mut draw);
                program.line("pthread_mutex_lock(&lock);");
                program.line("pthread_mutex_unlock(&lock);");
            }
            program.line("return p;\n}");
        }
        program.line("int main(int argc, char **argv)\n{");
        program.line("#ifdef MUTANTS\nmutant = argc > 1 ? atol(argv[1]) : 0;\n#endif");
        program.line("pthread_t a, b;");
        program.line("pthread_create(&a, NULL, one, NULL);");
        program.line("pthread_create(&b, NULL, two, NULL);");
        program.line("pthread_join(a, NULL);");
        program.line("pthread_join(b, NULL);");
        program.line("exit(1 + v[0] % 200);\n}");
        program
    }

    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    fn block(&mut self, draw: &mut Draw) {
        for _ in 0..2 + draw.below(3) {
            let to = draw.below(8);
            if draw.below(3) > 0 {
                self.set(draw, to);
                continue;
            }
            // Both branches write the same variable: the write of a branch that was not taken is in no dynamic slice.
            let line = self.statement();
            self.line(&format!("IF({line}, v[{}] % 3 != {}) {{", draw.below(8), draw.below(3)));
            self.set(draw, to);
            self.line("} else {");
            self.set(draw, to);
            self.line("}");
        }
    }

    fn set(&mut self, draw: &mut Draw, to: u64) {
        let line = self.statement();
        let (one, two) = (draw.below(8), draw.below(8));
        let operation = ["+", "*", "^", "-"][draw.below(4) as usize];
        self.line(&format!("SET({line}, v[{to}], v[{one}] {operation} v[{two}] + {});", draw.below(9)));
    }

    /// Declares the next line a statement and returns its number.
    fn statement(&mut self) -> u64 {
        let line = self.text.lines().count() as u64 + 1;
        self.statements.push(line);
        line
    }
}

#[test]
fn mutating_statements_outside_slice_keeps_failure() {
    let (mut untouched, mut matters) = (0, 0);
    for seed in 1..=3 {
        let place = Place::new(&format!("mutants-{seed}"));
        let program = Random::new(seed);
        place.write("case.c", &program.text);
        for (name, flag) in [("program", "-g"), ("mutants", "-DMUTANTS")] {
            let level = ["-O0", "-O1", "-O2"][seed as usize % 3];
            let mut gcc = Command::new("gcc");
            gcc.args(["-w", "-pthread", level, flag, "case.c", "-o", name]).current_dir(&place.0);
            assert!(gcc.status().expect("gcc runs").success());
        }
        let seed_text = seed.to_string();
        place.unsnarl(100, &["record", "--seed", &seed_text, "-o", "t.snarl", "--", "./program"]);
        let status = |mutant: u64| {
            let mutant = mutant.to_string();
            let args = ["record", "--like", "t.snarl", "--json", "-o", "m.snarl", "--", "./mutants", &mutant];
            let report: super::Value = serde_json::from_slice(&place.ends(&args).stdout).expect("JSON");
            assert_eq!(report["outcome"]["kind"], "exit", "{report}");
            report["outcome"]["status"].as_u64().expect("a status")
        };
        let slice = slice_of(&place, &[]);
        let lines = slice["lines"].as_array().expect("lines");
        let found: BTreeSet<u64> = lines.iter().filter_map(|line| line["line"].as_u64()).collect();
        let original = status(0);
        for &statement in &program.statements {
            for mutant in [statement, 1000 + statement] {
                if found.contains(&statement) {
                    matters += u64::from(status(mutant) != original);
                    continue;
                }
                let changed = status(mutant);
                let source = &program.text;
                assert_eq!(changed, original, "seed {seed}: line {statement} is not in {found:?}\n{source}");
                untouched += 1;
            }
        }
    }
    assert!(untouched >= 15, "{untouched} statements were outside of a slice");
    assert!(matters >= 10, "{matters} statements of slices made a difference");
}
