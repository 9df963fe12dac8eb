//! `memtap completions`: shell completions for memtap's commands and options.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Command, Parser, ValueEnum};
use clap_complete::Shell;

use crate::output::Out;

/// Print shell completions
///
/// bash: memtap completions bash > ~/.local/share/bash-completion/completions/memtap
///
/// zsh: memtap completions zsh > a directory of $fpath, as _memtap
///
/// fish: memtap completions fish > ~/.config/fish/completions/memtap.fish
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The shell
    shell: Name,
}

/// The shells that memtap's packages have completions for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    Bash,
    Zsh,
    Fish,
}

impl From<Name> for Shell {
    fn from(name: Name) -> Self {
        match name {
            Name::Bash => Self::Bash,
            Name::Zsh => Self::Zsh,
            Name::Fish => Self::Fish,
        }
    }
}

pub(crate) fn run(args: &Args, mut command: Command) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(Shell::from(args.shell), &mut command, "memtap", &mut text);
    let mut out = Out::stdout();
    for line in String::from_utf8(text)?.lines() {
        out.line(line)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
