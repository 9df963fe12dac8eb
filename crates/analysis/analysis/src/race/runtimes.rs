//! Language runtimes that run the program's work on threads of their own: Go's and tokio's.
//! How they pass work between threads is not modelled, so all accesses of their functions
//! count as synchronisation. A program's runtime is recognised by its symbols and sections.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use symbols::{CodeName, Module};

/// A runtime that is linked into a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkedRuntime {
    Go,
    Tokio,
}

/// Go's packages that are its runtime, or synchronise. All that is the program's own has the name of another package.
const OF_GO: [&str; 6] = ["runtime.", "runtime/", "sync.", "sync/", "internal/", "syscall."];
/// Crates that are tokio, or what it is made of.
const OF_TOKIO: [&str; 3] = ["tokio::", "mio::", "parking_lot"];
/// Rust's own crates: what is inlined of them belongs to who called it.
const OF_RUST: [&str; 3] = ["core::", "alloc::", "std::"];

impl LinkedRuntime {
    fn of(module: &Module) -> Option<Self> {
        if module.sections().iter().any(|section| &*section.name == ".gopclntab") {
            return Some(Self::Go);
        }
        let mut symbols = module.symbols();
        symbols.find_map(|symbol| match symbol.raw_name {
            "runtime.goexit" | "runtime.goexit.abi0" => Some(Self::Go),
            name if name.contains("5tokio7runtime") => Some(Self::Tokio),
            _ => None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Go => "Go's runtime",
            Self::Tokio => "tokio",
        }
    }

    /// Whether an instruction is one of the runtime's own. Without symbols all are taken for that.
    fn is_inside(self, code: &CodeName) -> bool {
        let Some(function) = code.function.as_deref() else { return true };
        match self {
            Self::Go => is_of_go(function),
            Self::Tokio => {
                // The innermost function that is not one of Rust's own libraries says whose code it is.
                let calls = code.calls();
                let names = calls.iter().filter_map(|call| call.function.as_deref());
                names
                    .map(plain)
                    .find(|name| !begins(name, &OF_RUST))
                    .is_some_and(|name| begins(name, &OF_TOKIO))
            }
        }
    }
}

fn begins(name: &str, of: &[&str]) -> bool {
    of.iter().any(|start| name.starts_with(start))
}

/// Functions in assembly have no package.
fn is_of_go(function: &str) -> bool {
    begins(function, &OF_GO) || !function.contains('.')
}

/// `<tokio::task::Task as core::future::Future>::poll` without what stands before the type's name.
fn plain(name: &str) -> &str {
    name.trim_start_matches(['<', '&']).trim_start_matches("mut ")
}

/// The runtimes of a process's modules.
#[derive(Debug, Default)]
pub(super) struct Runtimes {
    /// By the modules' numbers.
    known: FxHashMap<u32, Option<LinkedRuntime>>,
    /// Those that were met, as they are named to people.
    met: BTreeSet<String>,
}

impl Runtimes {
    /// Whether an instruction is one of a runtime that is linked into the program.
    pub(super) fn has(&mut self, code: &CodeName) -> bool {
        let Some((module, _)) = code.place() else { return false };
        let runtime = *self.known.entry(module.serial()).or_insert_with(|| LinkedRuntime::of(module));
        let Some(runtime) = runtime else { return false };
        let inside = runtime.is_inside(code);
        if inside {
            self.met.insert(format!("{} (in {})", runtime.name(), module.name()));
        }
        inside
    }

    /// Those that were met.
    pub(super) fn met(&self) -> &BTreeSet<String> {
        &self.met
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_runtimes_are_known_by_their_names() {
        for name in
            ["runtime.chansend1", "sync.(*Mutex).Lock", "internal/poll.(*FD).Read", "gogo", "memeqbody"]
        {
            assert!(is_of_go(name), "{name}");
        }
        for name in ["main.main", "main.worker.func1", "github.com/a/sync.Run", "bufio.(*Reader).fill"] {
            assert!(!is_of_go(name), "{name}");
        }
        for name in [
            "tokio::runtime::park::Inner::park",
            "<tokio::task::JoinHandle<T> as core::future::Future>::poll",
        ] {
            assert!(begins(plain(name), &OF_TOKIO), "{name}");
        }
        assert!(!begins(plain("<server::Handler as tokio::Service>::call"), &OF_TOKIO));
    }
}
