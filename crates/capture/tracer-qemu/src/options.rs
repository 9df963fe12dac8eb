//! What the recorder requests: arguments on QEMU's command line, `name=value`.

use memref::RamLayout;

/// A half-open range of cycles, milliseconds or addresses.
pub(crate) type NumberRange = core::ops::Range<u64>;

/// What to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginOptions {
    /// The recorder's socket.
    pub(crate) channel: String,
    /// Whether written bytes are recorded.
    pub(crate) data: bool,
    /// Whether read bytes are recorded too.
    pub(crate) read_data: bool,
    /// Whether loads are recorded.
    pub(crate) loads: bool,
    /// Whether stores are recorded.
    pub(crate) stores: bool,
    /// Whether every block that is entered is recorded, not only those with accesses.
    pub(crate) flow: bool,
    /// Where the guest's memory lies, of which QEMU has the pieces one behind the other.
    pub(crate) ram: RamLayout,
    /// Whether QEMU tells places in its own memory as the physical addresses of main memory (before 8.2).
    pub(crate) offsets: bool,
    /// Record only in these cycles.
    pub(crate) cycles: Option<NumberRange>,
    /// Record only in these milliseconds since the machine started.
    pub(crate) millis: Option<NumberRange>,
    /// Record only accesses to these virtual addresses.
    pub(crate) virt: Option<NumberRange>,
    /// Record only accesses to these physical addresses.
    pub(crate) phys: Option<NumberRange>,
    /// Record only while a process of this name executes.
    pub(crate) process: Option<String>,
    /// Record only between the guest's marker instructions.
    pub(crate) marked: bool,
}

impl Default for PluginOptions {
    fn default() -> Self {
        Self {
            channel: String::new(),
            data: false,
            read_data: false,
            loads: true,
            stores: true,
            flow: false,
            ram: RamLayout::default(),
            offsets: false,
            cycles: None,
            millis: None,
            virt: None,
            phys: None,
            process: None,
            marked: false,
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("{text}: not a number"))
}

fn span(text: &str) -> Result<NumberRange, String> {
    let (start, end) = text.split_once("..").ok_or_else(|| format!("{text}: not a range A..B"))?;
    let start = if start.is_empty() { 0 } else { number(start)? };
    let end = if end.is_empty() { u64::MAX } else { number(end)? };
    Ok(start..end)
}

/// The guest's memory: `BYTES` in one piece, or `BYTES/LOW`, of which so many lie below 4 GiB.
fn ram(text: &str) -> Result<RamLayout, String> {
    let (bytes, low) = text.split_once('/').unwrap_or((text, text));
    Ok(RamLayout::new(number(bytes)?, number(low)?))
}

impl PluginOptions {
    /// From QEMU's arguments.
    pub(crate) fn parse<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut options = Self::default();
        for argument in arguments {
            let (name, value) = argument.split_once('=').unwrap_or((argument, "on"));
            let on = value == "on";
            match name {
                "channel" => options.channel = value.to_owned(),
                "data" => options.data = on,
                "read_data" => options.read_data = on,
                "loads" => options.loads = on,
                "stores" => options.stores = on,
                "flow" => options.flow = on,
                "ram" => options.ram = ram(value)?,
                "offsets" => options.offsets = on,
                "cycles" => options.cycles = Some(span(value)?),
                "millis" => options.millis = Some(span(value)?),
                "virt" => options.virt = Some(span(value)?),
                "phys" => options.phys = Some(span(value)?),
                "process" => options.process = Some(value.to_owned()),
                "marked" => options.marked = on,
                _ => return Err(format!("{name}: an argument that is not known")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let options = PluginOptions::parse(
            ["channel=x", "data=on", "loads=off", "phys=0x1000..0x2000", "cycles=5..", "ram=9/3"].into_iter(),
        );
        let expected = PluginOptions {
            channel: "x".into(),
            data: true,
            loads: false,
            phys: Some(0x1000..0x2000),
            cycles: Some(5..u64::MAX),
            ram: RamLayout::new(9, 3),
            ..PluginOptions::default()
        };
        assert_eq!(options, Ok(expected));
        assert!(PluginOptions::parse(["colour=red"].into_iter()).is_err());
        assert!(PluginOptions::parse(["phys=5"].into_iter()).is_err());
    }
}
