//! The recorder's message to a process that connects; it is sent together with the pool's descriptor.

/// Functions at whose entry recording can start or stop.
pub const MAX_BREAKPOINTS: usize = 16;
/// Bytes of a module's path in the message.
pub const MAX_PATH_BYTES: usize = 1024;
/// Bytes of the path of the list of watchpoints, its zero included.
pub const MAX_LIST_PATH_BYTES: usize = 64;
const VERIFY_AT: usize = 16 + MAX_LIST_PATH_BYTES;
const PID_AT: usize = VERIFY_AT + 8;
const HEAD_BYTES: usize = PID_AT + 8;
const BREAKPOINT_BYTES: usize = 16 + MAX_PATH_BYTES;
/// Bytes of the message.
pub const CONFIG_BYTES: usize = HEAD_BYTES + MAX_BREAKPOINTS * BREAKPOINT_BYTES;
const MAGIC: [u8; 4] = *b"mtc1";

/// What a breakpoint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakpointKind {
    /// Recording starts.
    Start,
    /// Recording stops.
    Stop,
}

/// A function of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakpoint {
    /// What happens at its entry.
    pub kind: BreakpointKind,
    /// Its address as the module's symbol table has it.
    pub address: u64,
    /// The module's path, padded with zeros.
    pub module: [u8; MAX_PATH_BYTES],
}

impl Breakpoint {
    /// The path without its padding.
    pub fn module(&self) -> &[u8] {
        let len = self.module.iter().position(|&byte| byte == 0).unwrap_or(MAX_PATH_BYTES);
        self.module.get(..len).unwrap_or(&[])
    }
}

/// The settings of a session, as far as a traced process needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which kinds of regions are traced; bit n is `RegionKind` n.
    pub regions: u32,
    /// Whether processes that a traced one makes are traced too.
    pub children: bool,
    /// Whether a handler goes on executing after the access that faulted.
    pub bursts: bool,
    /// Whether each access takes two signals and two mprotects, as in the paper: for measuring.
    pub two_signals: bool,
    /// Whether recording starts at main.
    pub at_main: bool,
    /// Whether code is translated, instead of taking memory's rights away.
    pub translate: bool,
    /// Whether translated code records the bytes that accesses read and write.
    pub data: bool,
    /// Whether translated code writes every block that it executes, not only those that access memory.
    pub flow: bool,
    /// Whether a process may be left before it ends, and goes on natively then.
    pub leaves: bool,
    /// Instructions of each window in which a thread's translated code is compared with stepping; zero: there is none.
    pub verify: u32,
    /// The process's id in the recorder's name space: entered when it connects.
    pub pid: u32,
    /// Path of a list of watchpoints, padded with zeros: where there is one, nothing else is recorded.
    pub watchpoints: [u8; MAX_LIST_PATH_BYTES],
    /// Functions that start and stop recording.
    pub breakpoints: [Option<Breakpoint>; MAX_BREAKPOINTS],
}

impl Config {
    /// As a message. The layout is private to one build: both sides come from it.
    pub fn encode(&self) -> [u8; CONFIG_BYTES] {
        let mut bytes = [0; CONFIG_BYTES];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            if let Some(place) = bytes.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
            at += part.len();
        };
        put(&MAGIC);
        put(&self.regions.to_le_bytes());
        put(&[
            self.children.into(),
            self.bursts.into(),
            self.two_signals.into(),
            self.at_main.into(),
            self.translate.into(),
            self.data.into(),
            self.flow.into(),
            self.leaves.into(),
        ]);
        put(&self.watchpoints);
        put(&u64::from(self.verify).to_le_bytes());
        put(&u64::from(self.pid).to_le_bytes());
        for breakpoint in &self.breakpoints {
            let kind = match breakpoint.map(|breakpoint| breakpoint.kind) {
                None => 0u64,
                Some(BreakpointKind::Start) => 1,
                Some(BreakpointKind::Stop) => 2,
            };
            put(&kind.to_le_bytes());
            put(&breakpoint.map_or(0, |breakpoint| breakpoint.address).to_le_bytes());
            put(&breakpoint.map_or([0; MAX_PATH_BYTES], |breakpoint| breakpoint.module));
        }
        bytes
    }

    /// From a message; `None` where it is of another build.
    pub fn decode(bytes: &[u8; CONFIG_BYTES]) -> Option<Self> {
        let word = |at: usize| {
            bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        if !bytes.starts_with(&MAGIC) {
            return None;
        }
        let flag = |index: usize| bytes.get(8 + index).is_some_and(|&byte| byte != 0);
        let mut breakpoints = [None; MAX_BREAKPOINTS];
        for (index, place) in breakpoints.iter_mut().enumerate() {
            let at = HEAD_BYTES + index * BREAKPOINT_BYTES;
            let kind = match word(at) {
                1 => BreakpointKind::Start,
                2 => BreakpointKind::Stop,
                _ => continue,
            };
            let mut module = [0; MAX_PATH_BYTES];
            module.copy_from_slice(bytes.get(at + 16..at + BREAKPOINT_BYTES)?);
            *place = Some(Breakpoint { kind, address: word(at + 8), module });
        }
        Some(Self {
            regions: (word(0) >> 32) as u32,
            children: flag(0),
            bursts: flag(1),
            two_signals: flag(2),
            at_main: flag(3),
            translate: flag(4),
            data: flag(5),
            flow: flag(6),
            leaves: flag(7),
            verify: word(VERIFY_AT) as u32,
            pid: word(PID_AT) as u32,
            watchpoints: bytes.get(16..VERIFY_AT)?.try_into().ok()?,
            breakpoints,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_config_comes_back() {
        let mut module = [0; MAX_PATH_BYTES];
        module[..4].copy_from_slice(b"/bin");
        let mut breakpoints = [None; MAX_BREAKPOINTS];
        breakpoints[0] = Some(Breakpoint { kind: BreakpointKind::Start, address: 0x1234, module });
        breakpoints[15] = Some(Breakpoint { kind: BreakpointKind::Stop, address: u64::MAX, module });
        let config = Config {
            regions: 0x1e,
            children: true,
            bursts: false,
            two_signals: true,
            at_main: false,
            translate: true,
            data: true,
            flow: true,
            leaves: true,
            verify: 1000,
            pid: 4711,
            watchpoints: [7; MAX_LIST_PATH_BYTES],
            breakpoints,
        };
        assert_eq!(Config::decode(&config.encode()), Some(config));
        assert_eq!(breakpoints[0].map(|b| b.module().to_vec()), Some(b"/bin".to_vec()));
        assert_eq!(Config::decode(&[0; CONFIG_BYTES]), None);
    }
}
