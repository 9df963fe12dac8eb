//! The bytes that accesses read or wrote, where they were recorded.

use super::{
    Filter, Shard,
    cursor::{Step, StreamCursor},
    stream::VarReader,
};
use crate::{
    DataValue, Error, KindSet,
    entry::{StreamKind, VALUE_NONE, ValueEntry},
};

/// Goes through the values of a shard in the order of their accesses. Damaged ones are left out.
#[derive(Debug)]
pub struct ValueCursor {
    cursor: StreamCursor<ValueEntry>,
    data: VarReader,
    at: usize,
}

impl ValueCursor {
    pub(crate) fn new(shard: &Shard, filter: &Filter) -> Self {
        let filter = Filter { index: filter.index.clone(), kinds: KindSet::NONE, ..Filter::default() };
        let data = VarReader::new(shard.inner.stream(StreamKind::ValuesData, Some(shard.thread)));
        Self { cursor: StreamCursor::new(shard, &filter), data, at: 0 }
    }

    fn value(&mut self, entry: &ValueEntry) -> Result<Option<DataValue>, Error> {
        let inner = &self.cursor.inner;
        let access_index = entry.index;
        let bytes = if entry.reference == VALUE_NONE {
            entry.value.to_le_bytes().get(..entry.len as usize).map(<[u8]>::to_vec)
        } else {
            self.data.get(&inner.file, &inner.encoders, entry.reference)?
        };
        let whole = |bytes: &Vec<u8>| bytes.len() == entry.len as usize;
        Ok(bytes.filter(whole).map(|bytes| DataValue { access_index, bytes }))
    }
}

impl Iterator for ValueCursor {
    type Item = Result<DataValue, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let Some(entry) = self.cursor.block().get(self.at).cloned() {
                self.at += 1;
                if let Some(value) = self.value(&entry).transpose() {
                    return Some(value);
                }
            }
            self.at = 0;
            match self.cursor.step() {
                Ok(Some(Step::Block | Step::Gap(_))) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
