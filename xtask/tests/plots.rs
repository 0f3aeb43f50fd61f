//! The plots in the repository are what `cargo xtask plots` draws from the CSV files.

use std::path::Path;
use std::process::Command;

const PLOTS: [&str; 5] = ["long.svg", "search.svg", "simplify.svg", "speed.svg", "static.svg"];

#[test]
fn plots_match_their_data() {
    let drawn = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plots");
    let status = Command::new(env!("CARGO_BIN_EXE_xtask")).args(["plots", "--into"]).arg(&drawn).status();
    assert!(status.expect("xtask runs").success());
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results/plots");
    for name in PLOTS {
        let drawn = std::fs::read_to_string(drawn.join(name)).expect(name);
        let kept = std::fs::read_to_string(kept.join(name)).expect(name);
        assert!(drawn == kept, "{name} is out of date: run `cargo xtask plots`");
    }
    let files = std::fs::read_dir(kept).expect("docs/results/plots").count();
    assert_eq!(files, PLOTS.len(), "docs/results/plots has files that nothing draws");
}
