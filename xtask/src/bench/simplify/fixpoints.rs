//! `cargo xtask bench simplify fixpoints`: a result that is simplified again does not change.

use super::Bench;
use anyhow::Result;

impl Bench {
    /// Simplifies random failing traces of every program, and each result once more.
    pub(super) fn fixpoints(&self, traces: u64) -> Result<()> {
        println!("\n## Results simplified again, {traces} random failing traces of every program\n");
        println!("| program | results | unchanged | runs | runs of the second time |");
        println!("|---|--:|--:|--:|--:|");
        let (mut results, mut unchanged) = (0, 0);
        for program in self.failing_programs()?.iter().chain(&self.realistic_programs()?) {
            let simplified = self.simplified(program, traces, &["--again".to_owned()])?;
            let same = simplified.iter().filter(|trace| trace["again"]["unchanged"] == true).count();
            (results, unchanged) = (results + simplified.len(), unchanged + same);
            let runs = |of: &dyn Fn(&serde_json::Value) -> Option<u64>| {
                let sum: u64 = simplified.iter().filter_map(of).sum();
                sum as f64 / simplified.len().max(1) as f64
            };
            println!(
                "| {} | {} | {same} | {:.1} | {:.1} |",
                program.name,
                simplified.len(),
                runs(&|trace| trace["executions"].as_u64()),
                runs(&|trace| trace["again"]["executions"].as_u64()),
            );
        }
        println!("| **all** | {results} | {unchanged} | | |");
        Ok(())
    }
}
