//! `unsnarl man` and `unsnarl completions`: generated from the command line itself, so they are always up to date.

use crate::{Cli, output, verdict::Verdict};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::{fs, path::PathBuf};

/// Write the manual pages
#[derive(clap::Args)]
pub(crate) struct Man {
    /// The directory to write them to, like ~/.local/share/man/man1
    #[arg(default_value = ".")]
    directory: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> Result<Verdict> {
        fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot make the directory {}", self.directory.display()))?;
        clap_mangen::generate_to(Cli::command(), &self.directory)
            .with_context(|| format!("cannot write to {}", self.directory.display()))?;
        output::print(&format!(
            "manual   man {}\n",
            output::quoted(&std::path::absolute(self.directory.join("unsnarl.1"))?)
        ));
        Ok(Verdict::Fine)
    }
}

/// Print shell completions
#[derive(clap::Args)]
#[command(
    after_help = "bash: unsnarl completions bash > ~/.local/share/bash-completion/completions/unsnarl\n\
    zsh: unsnarl completions zsh > a directory of $fpath/_unsnarl\n\
    fish: unsnarl completions fish > ~/.config/fish/completions/unsnarl.fish"
)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<Verdict> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "unsnarl", &mut script);
        output::print(&String::from_utf8_lossy(&script));
        Ok(Verdict::Fine)
    }
}
