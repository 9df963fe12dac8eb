//! What this machine offers to a recording: each thing that a recording
//! needs or benefits from, whether it is present, and what to do if not.
//!
//! Whatever can be tried is tried ([`trial`]): a small program is recorded with each tracer, and a running one is
//! attached to. The rest, which explains why a trial failed or what a user will miss, is read from files of the kernel
//! ([`kernel`]) and from the installed libraries ([`installed`]). Nothing is changed, and nothing is left behind.

mod installed;
mod kernel;
mod trial;

/// Whether a thing is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostState {
    /// It is there.
    Fine,
    /// Recording works without it, but something is missing or slower.
    Worse,
    /// Programs can't be recorded.
    Missing,
}

/// What was looked at, and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFinding {
    /// What was looked at: a word or two, the same on each machine.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub state: HostState,
    /// What was found, with its figure.
    pub found: String,
    /// What the user can do; empty where nothing is to be done.
    pub advice: String,
    /// The command that does it; empty where no command is known.
    pub fix: String,
}

impl HostFinding {
    fn fine(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: HostState::Fine, found: found.into(), advice: String::new(), fix: String::new() }
    }

    fn worse(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, state: HostState::Worse, found: found.into(), advice: advice.into(), fix: String::new() }
    }

    /// With the command that mends it.
    fn with_fix(self, fix: impl Into<String>) -> Self {
        Self { fix: fix.into(), ..self }
    }

    fn missing(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            name,
            state: HostState::Missing,
            found: found.into(),
            advice: advice.into(),
            fix: String::new(),
        }
    }
}

/// Looks at everything, in the order in which a user should read it. Takes about a second.
#[must_use]
pub fn examine_host() -> Vec<HostFinding> {
    let mut all = kernel::findings();
    all.extend(installed::libraries());
    all.extend(trial::findings());
    all.extend([installed::debug_information(), installed::machine_emulator()]);
    all
}
