//! Lists the variables that more than one thread accesses: an example of a custom tool that replays a trace.
//!
//! ```console
//! $ memtap record -o run.memtap ./program
//! $ cargo run -p analysis --example shared_variables run.memtap
//! ```

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::ExitCode;

use analysis::{Error, Moment, Session, Tool};
use memref::{Access, ThreadId};
use symbols::VariableId;
use trace_format::Filter;

/// The threads of each variable. A replay asks for the name at the moment of the access: later another block may be there.
#[derive(Default)]
struct Shared {
    threads: HashMap<VariableId, BTreeSet<ThreadId>>,
}

impl Tool for Shared {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            let data = at.resolver.resolve_data(access.addr);
            self.threads.entry(data.variable).or_default().insert(at.thread);
        }
        Ok(())
    }
}

fn print_shared(path: &Path) -> Result<(), Error> {
    let session = Session::open(path)?;
    let mut shared = Shared::default();
    session.replay(&Filter::default(), None, &mut shared)?;
    let mut lines: Vec<String> = shared
        .threads
        .into_iter()
        .filter(|(_, threads)| threads.len() > 1)
        .filter_map(|(id, threads)| {
            let variable = session.names().variable(id)?;
            Some(format!("{} threads access {}", threads.len(), variable.name))
        })
        .collect();
    lines.sort();
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: shared_variables TRACE");
        return ExitCode::from(2);
    };
    match print_shared(Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
