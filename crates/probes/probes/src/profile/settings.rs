//! The settings of the profiler. They are passed to the probed process as environment
//! variables `MEMTAP_PROBES_*`, and kept there for later queries ([`current`]).

use std::sync::atomic::{AtomicPtr, Ordering};

/// Environment variable that names the directory for results; without it the library does nothing.
pub const OUT: &str = "MEMTAP_PROBES_OUT";
/// Samples of a function and epoch; `all`: every call.
pub const SAMPLE: &str = "MEMTAP_PROBES_SAMPLE";
/// Epoch in milliseconds.
pub const EPOCH_MS: &str = "MEMTAP_PROBES_EPOCH_MS";
/// Globs of functions.
pub const FUNCTIONS: &str = "MEMTAP_PROBES_FUNCTIONS";
/// Whether to probe the functions of the system's libraries.
pub const LIBRARIES: &str = "MEMTAP_PROBES_LIBRARIES";
/// Overhead allowed, in per cent.
pub const BUDGET: &str = "MEMTAP_PROBES_BUDGET";
/// Whether to keep the latest calls for a timeline.
pub const TIMELINE: &str = "MEMTAP_PROBES_TIMELINE";

/// The process that attached, which must stay alive; empty: the library was preloaded.
pub const CONTROLLER: &str = "MEMTAP_PROBES_CONTROLLER";

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where results are written.
    pub out_dir: String,
    /// Samples of a function and epoch; `None`: every call is measured.
    pub sample: Option<u32>,
    /// Epoch in milliseconds.
    pub epoch_ms: u64,
    /// Globs of functions, joined by commas; empty: all.
    pub functions: String,
    /// Probe the functions of the system's libraries as well.
    pub libraries: bool,
    /// The most the probes may cost, in per cent of the processor time used.
    pub budget_percent: Option<f64>,
    /// Keep the latest calls of each thread.
    pub timeline: bool,
    /// The process that attached to this one; 0: the library was preloaded.
    pub controller: u32,
}

impl Settings {
    /// From the environment; `None` where it does not ask for profiling.
    #[must_use]
    pub fn from_env() -> Option<Self> {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    /// From the lines of [`Self::to_text`].
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::from_vars(|name| {
            let value = |line: &str| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
            text.lines().find_map(value)
        })
    }

    fn from_vars(var: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let var = |name| var(name).filter(|v| !v.is_empty());
        Some(Self {
            out_dir: var(OUT)?,
            sample: match var(SAMPLE).as_deref() {
                Some("all") => None,
                Some(count) => Some(count.parse().unwrap_or(10).max(1)),
                None => Some(10),
            },
            epoch_ms: var(EPOCH_MS).and_then(|v| v.parse().ok()).unwrap_or(10).max(1),
            functions: var(FUNCTIONS).unwrap_or_default(),
            libraries: var(LIBRARIES).is_some(),
            budget_percent: var(BUDGET).and_then(|v| v.trim_end_matches('%').parse().ok()),
            timeline: var(TIMELINE).is_some(),
            controller: var(CONTROLLER).and_then(|v| v.parse().ok()).unwrap_or(0),
        })
    }

    /// The environment that makes a probed process use these settings.
    #[must_use]
    pub fn to_env(&self) -> Vec<(&'static str, String)> {
        vec![
            (OUT, self.out_dir.clone()),
            (SAMPLE, self.sample.map_or("all".to_owned(), |n| n.to_string())),
            (EPOCH_MS, self.epoch_ms.to_string()),
            (FUNCTIONS, self.functions.clone()),
            (LIBRARIES, if self.libraries { "1".to_owned() } else { String::new() }),
            (BUDGET, self.budget_percent.map_or(String::new(), |b| b.to_string())),
            (TIMELINE, if self.timeline { "1".to_owned() } else { String::new() }),
            (CONTROLLER, if self.controller == 0 { String::new() } else { self.controller.to_string() }),
        ]
    }

    /// The same as text, a line each, for a process that runs already.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.to_env().into_iter().map(|(name, value)| format!("{name}={value}\n")).collect()
    }

    /// Whether a function of this symbol name is to be probed.
    #[must_use]
    pub fn wants(&self, symbol: &str) -> bool {
        self.functions.is_empty() || crate::name::matches_symbol(&self.functions, symbol)
    }
}

/// Null, or leaked settings. Written when the profiler starts, which it may do again after an attachment ended.
static SETTINGS: AtomicPtr<Settings> = AtomicPtr::new(std::ptr::null_mut());

/// The settings of this process, once the profiler runs.
#[must_use]
pub fn current() -> Option<&'static Settings> {
    // SAFETY: null or leaked settings, never changed.
    unsafe { SETTINGS.load(Ordering::Acquire).as_ref() }
}

/// Whether the process was attached to.
pub(crate) fn is_attached() -> bool {
    current().is_some_and(|settings| settings.controller != 0)
}

pub(super) fn set(settings: Settings) {
    SETTINGS.store(Box::into_raw(Box::new(settings)), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_settings_are_the_same() {
        let settings = Settings {
            out_dir: "/tmp/a=b".to_owned(),
            sample: Some(7),
            epoch_ms: 3,
            functions: "a*,b".to_owned(),
            libraries: true,
            budget_percent: Some(2.5),
            timeline: true,
            controller: 42,
        };
        let read = Settings::from_text(&settings.to_text()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{settings:?}"));
        assert!(Settings::from_text("MEMTAP_PROBES_SAMPLE=3").is_none(), "no directory, no profile");
    }
}
