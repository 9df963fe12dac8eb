//! The cost of Linux's munmap on the current machine. It is not a property of a recorded run,
//! so it is measured only on request, and the result names the machine it was measured on.

/// Sizes for which munmap is measured: up to the largest that the figure shows, and what a test machine can spare.
const MOST_BYTES: u64 = 64 << 20;
/// The middle of so many tries.
const TRIES: usize = 5;

/// One size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MunmapPoint {
    /// Bytes that were unmapped, all of them touched.
    pub bytes: u64,
    /// How long it took.
    pub time_ns: f64,
}

/// The cost of munmap by size.
#[derive(Clone, Debug, PartialEq)]
pub struct MunmapCurve {
    /// The processor and the kernel.
    pub measured_on: String,
    /// From small to large.
    pub points: Vec<MunmapPoint>,
}

impl MunmapCurve {
    /// Measures it here and now. A machine without that much memory has a shorter curve.
    pub fn measure() -> Self {
        let sizes = std::iter::successors(Some(4096_u64), |bytes| Some(bytes * 2));
        let points = sizes
            .take_while(|&bytes| bytes <= MOST_BYTES)
            .map_while(|bytes| {
                let time_ns = rtvm::munmap_ns(bytes as usize, TRIES).ok()?;
                Some(MunmapPoint { bytes, time_ns })
            })
            .collect();
        Self { measured_on: this_machine(), points }
    }
}

fn this_machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let processor = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()))
        .unwrap_or("an unknown processor");
    format!("{processor}, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}
