//! The encoders that a writer or reader knows, by number.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    blocks::ExecutionEncoder, codec::Encoder, columns::Columns, generic::Generic, live::LiveEncoder, number,
    predict::AccessEncoder, raw::Raw, vpc::Vpc,
};

/// The encoders that a writer or reader knows, by number.
#[derive(Clone)]
pub struct Encoders(BTreeMap<u32, Arc<dyn Encoder>>);

impl Encoders {
    /// The number of the recorders' encoder.
    pub const LIVE: u32 = number::LIVE;
    /// The number of the encoder of accesses by the blocks that made them.
    pub const BLOCKS: u32 = number::BLOCKS;

    /// Adds one, or replaces the one with its number.
    pub fn add(&mut self, encoder: Arc<dyn Encoder>) {
        self.0.insert(encoder.id(), encoder);
    }

    /// The one with that name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<dyn Encoder>> {
        self.0.values().find(|encoder| encoder.name() == name)
    }

    /// The names of memtap's encoders for accesses of any recorder, with data and without: what a user may choose from.
    pub fn of_accesses() -> impl Iterator<Item = &'static str> {
        number::of_accesses()
    }

    /// The one with that number.
    pub fn get(&self, id: u32) -> Option<&Arc<dyn Encoder>> {
        self.0.get(&id)
    }
}

impl Default for Encoders {
    /// memtap's own.
    fn default() -> Self {
        let mut encoders = Self(BTreeMap::new());
        encoders.add(Arc::new(Raw));
        encoders.add(Arc::new(Columns));
        encoders.add(Arc::new(LiveEncoder));
        encoders.add(Arc::new(AccessEncoder { archive: false }));
        encoders.add(Arc::new(AccessEncoder { archive: true }));
        encoders.add(Arc::new(Generic));
        encoders.add(Arc::new(Vpc));
        encoders.add(Arc::new(ExecutionEncoder));
        encoders
    }
}

impl fmt::Debug for Encoders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(id, encoder)| (id, encoder.name()))).finish()
    }
}
