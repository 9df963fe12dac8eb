//! What the profiler was asked for. Passed to the probed process as environment variables `MEMTAP_PROBES_*`.

/// Environment variable that names the directory for results; without it the library does nothing.
pub const OUT: &str = "MEMTAP_PROBES_OUT";
/// Samples of a function and epoch; `all`: every call.
pub const SAMPLE: &str = "MEMTAP_PROBES_SAMPLE";
/// Epoch in milliseconds.
pub const EPOCH_MS: &str = "MEMTAP_PROBES_EPOCH_MS";
/// Globs of functions.
pub const FUNCTIONS: &str = "MEMTAP_PROBES_FUNCTIONS";
/// Overhead allowed, in per cent.
pub const BUDGET: &str = "MEMTAP_PROBES_BUDGET";
/// Whether to keep the latest calls for a timeline.
pub const TIMELINE: &str = "MEMTAP_PROBES_TIMELINE";

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
    /// The most the probes may cost, in per cent of the processor time used.
    pub budget_percent: Option<f64>,
    /// Keep the latest calls of each thread.
    pub timeline: bool,
}

impl Settings {
    /// From the environment; `None` where it does not ask for profiling.
    #[must_use]
    pub fn from_env() -> Option<Self> {
        let var = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
        Some(Self {
            out_dir: var(OUT)?,
            sample: match var(SAMPLE).as_deref() {
                Some("all") => None,
                Some(count) => Some(count.parse().unwrap_or(10).max(3)),
                None => Some(10),
            },
            epoch_ms: var(EPOCH_MS).and_then(|v| v.parse().ok()).unwrap_or(10).max(1),
            functions: var(FUNCTIONS).unwrap_or_default(),
            budget_percent: var(BUDGET).and_then(|v| v.trim_end_matches('%').parse().ok()),
            timeline: var(TIMELINE).is_some(),
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
            (BUDGET, self.budget_percent.map_or(String::new(), |b| b.to_string())),
            (TIMELINE, if self.timeline { "1".to_owned() } else { String::new() }),
        ]
    }

    /// Whether a function of this symbol name is to be probed.
    #[must_use]
    pub fn wants(&self, symbol: &str) -> bool {
        self.functions.is_empty()
            || crate::name::matches(&self.functions, symbol)
            || crate::name::matches(&self.functions, &crate::name::demangle(symbol))
    }
}
