//! Which accesses of a machine are recorded: settings of the plugin.

/// Accesses that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those that read.
    Loads,
    /// Those that write.
    Stores,
}

/// Which accesses of a machine are recorded, and when: all of these must hold. Ranges are `A..B`, and the plugin refuses what
/// is none.
#[derive(Clone, Debug, Default)]
pub struct MachineFilter {
    /// Whether the bytes that are read are recorded, too.
    pub read_data: bool,
    /// Only loads, or only stores.
    pub only: Option<Direction>,
    /// Between these counts of executed instructions.
    pub cycles: Option<String>,
    /// Between these milliseconds since the machine started.
    pub millis: Option<String>,
    /// Accesses to these physical addresses.
    pub physical: Option<String>,
    /// Accesses to these virtual addresses.
    pub virtual_range: Option<String>,
    /// While a process of this name executes.
    pub process: Option<String>,
    /// Between the guest's marker instructions.
    pub marked: bool,
}

impl MachineFilter {
    /// As the plugin reads it.
    pub(super) fn settings(&self, data: bool, flow: bool) -> Vec<String> {
        let flag = |name: &str, on: bool| on.then(|| format!("{name}=on"));
        let text = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name}={value}"));
        [
            flag("data", data),
            flag("read_data", self.read_data),
            flag("flow", flow),
            (self.only == Some(Direction::Loads)).then(|| "stores=off".to_owned()),
            (self.only == Some(Direction::Stores)).then(|| "loads=off".to_owned()),
            text("cycles", &self.cycles),
            text("millis", &self.millis),
            text("phys", &self.physical),
            text("virt", &self.virtual_range),
            text("process", &self.process),
            flag("marked", self.marked),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
