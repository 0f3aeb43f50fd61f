//! `cargo xtask bench simplify realistic`: programs of 100 to 300 lines, and table 1 of the Tinertia paper for them.

use super::{
    Bench,
    programs::{Sums, print_comparison},
};
use anyhow::Result;

impl Bench {
    /// Measures the programs in `programs/realistic`.
    pub(super) fn realistic(&self, traces: u64) -> Result<()> {
        println!("\n## Programs of 100 to 300 lines, {traces} random failing traces each\n");
        let rows = self.table(&self.realistic_programs()?, traces)?;
        print_comparison(&rows);
        println!("\nThe same in the columns of the Tinertia paper's table 1:\n");
        println!(
            "| program | LOC | size | threads | switches | non-preemptive | preemptive | size | threads | switches | \
             non-preemptive | preemptive | fewer switches | fewer non-preemptive | fewer preemptive |"
        );
        println!("|---|{}", "--:|".repeat(14));
        for (name, sums) in &rows {
            let source = std::fs::read_to_string(self.root.join("programs/realistic").join(name))?;
            println!("| {name} | {} | {} |", source.lines().count(), sums.columns().join(" | "));
        }
        Ok(())
    }
}

impl Sums {
    /// Returns the columns of table 1: the means before and after, and the reductions in percent.
    fn columns(&self) -> Vec<String> {
        let mean = |sum: &f64| format!("{:.1}", sum / self.traces.max(1.0));
        // Context switches, non-preemptive, preemptive.
        let reductions = (2..5).map(|at| match self.before[at] {
            before if before > 0.0 => format!("{:.0} %", 100.0 * (1.0 - self.after[at] / before)),
            _ => "–".into(),
        });
        self.before.iter().map(mean).chain(self.after.iter().map(mean)).chain(reductions).collect()
    }
}
