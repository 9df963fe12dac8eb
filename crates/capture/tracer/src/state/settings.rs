//! The settings that the recorder requested.

use buffers::Config;

/// What the recorder asked for.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// Which kinds of regions are traced; bit n is `RegionKind` n.
    pub(crate) regions: u32,
    /// Whether processes that this one makes are traced too.
    pub(crate) children: bool,
    /// Whether the handler goes on executing after the access that faulted.
    pub(crate) bursts: bool,
    /// Whether every access takes two signals and two mprotects, for comparison with the paper.
    pub(crate) two_signals: bool,
    /// Whether recording starts at main.
    pub(crate) at_main: bool,
    /// Whether code is translated, instead of taking memory's rights away.
    pub(crate) translate: bool,
    /// Whether translated code records the bytes of accesses.
    pub(crate) data: bool,
    /// Whether it records every block.
    pub(crate) flow: bool,
    /// Whether there are watchpoints instead of a recording.
    pub(crate) watches: bool,
    /// Instructions of each window in which translated code is compared with stepping; zero: there is none.
    pub(crate) verify: u32,
    /// Whether the program ran natively before it was attached to.
    pub(crate) attached: bool,
    /// Whether the process may be left before it ends.
    pub(crate) leaves: bool,
    /// Name of the recorder's socket (abstract, without the leading zero byte), and its length.
    pub(crate) channel: [u8; 64],
    pub(crate) channel_len: usize,
    /// The static executable that this process is, where it is one; empty otherwise.
    pub(crate) image: [u8; 1024],
    pub(crate) image_len: usize,
    /// Path of this library.
    pub(crate) library: [u8; 1024],
    pub(crate) library_len: usize,
}

impl Settings {
    /// Before anybody asked for anything.
    pub(crate) const NONE: Self = Self {
        regions: 0,
        children: true,
        bursts: true,
        two_signals: false,
        at_main: true,
        translate: false,
        data: false,
        flow: false,
        watches: false,
        verify: 0,
        attached: false,
        leaves: false,
        channel: [0; 64],
        channel_len: 0,
        image: [0; 1024],
        image_len: 0,
        library: [0; 1024],
        library_len: 0,
    };

    /// From what the recorder asked for, and its name.
    pub(crate) fn new(config: &Config, channel: [u8; 64], channel_len: usize) -> Self {
        Self {
            regions: config.regions,
            children: config.children,
            bursts: config.bursts,
            two_signals: config.two_signals,
            at_main: config.at_main,
            translate: config.translate,
            data: config.data,
            flow: config.flow,
            watches: config.watchpoints[0] != 0,
            verify: config.verify,
            leaves: config.leaves,
            channel,
            channel_len,
            ..Self::NONE
        }
    }

    /// The path of the static executable that this process is.
    pub(crate) fn image(&self) -> Option<&[u8]> {
        self.image.get(..self.image_len).filter(|path| !path.is_empty())
    }
}
