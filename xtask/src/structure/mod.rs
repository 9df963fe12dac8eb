//! `cargo xtask structure`: checks that the code base is as ARCHITECTURE.md and CONTRIBUTING.md say.
//!
//! It reads files as text and builds nothing. A new rule is a file here with one function `check`, and a line below.

mod arrows;
mod circles;
mod documents;
mod fields;
mod files;
mod names;
mod rooms;
mod source;

use anyhow::{Result, bail};

/// Checks every rule; a line each, and an error where one does not hold.
pub(crate) fn run() -> Result<()> {
    let sources = source::all()?;
    let results = [
        arrows::check(),
        circles::check(&sources),
        documents::check(),
        fields::check(&sources),
        files::check(&sources),
        names::check(&sources),
        rooms::check(&sources),
    ];
    let mut failed = 0;
    for result in results {
        match result {
            Ok(line) => println!("ok      {line}"),
            Err(error) => {
                failed += 1;
                println!("FAILED  {error:#}");
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of the house's rules do not hold");
    }
    Ok(())
}
