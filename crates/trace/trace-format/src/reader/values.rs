//! The bytes that accesses read or wrote, if they were recorded.

use super::{
    cursor::{CursorStep, StreamCursor},
    filter::Filter,
    shard::Shard,
    stream::VarReader,
};
use crate::{
    DataAccess, DataValue, Error, KindSet, StreamKind,
    entry::{REFERENCE, VALUE_NONE, ValueEntry},
};

/// The accesses' entries, or those of the stream that version 1 kept beside them.
#[derive(Debug)]
enum Entries {
    Inline(StreamCursor<Vec<DataAccess>>),
    Beside(StreamCursor<Vec<ValueEntry>>),
}

impl Shard {
    /// The bytes of the accesses whose index matches, where they were recorded. Only `filter.index` is tested.
    pub fn values(&self, filter: &Filter) -> ValueCursor {
        ValueCursor::new(self, filter)
    }
}

/// Goes through the values of a shard in the order of their accesses. Damaged ones are left out.
#[derive(Debug)]
pub struct ValueCursor {
    entries: Entries,
    data: VarReader,
    at: usize,
}

impl ValueCursor {
    pub(crate) fn new(shard: &Shard, filter: &Filter) -> Self {
        let data = VarReader::new(shard.inner.stream(StreamKind::ValuesData, Some(shard.thread)));
        let beside = shard.inner.stream(StreamKind::Values, Some(shard.thread)).is_some();
        let entries = if beside {
            let filter = Filter { index: filter.index.clone(), kinds: KindSet::NONE, ..Filter::default() };
            Entries::Beside(StreamCursor::new(shard, &filter))
        } else {
            let filter = Filter { index: filter.index.clone(), ..Filter::default() };
            Entries::Inline(StreamCursor::new(shard, &filter))
        };
        Self { entries, data, at: 0 }
    }

    /// The next entry of the current block, as version 1 kept it.
    fn entry(&mut self) -> Option<ValueEntry> {
        let entry = match &self.entries {
            Entries::Beside(cursor) => cursor.block().get(self.at)?.clone(),
            Entries::Inline(cursor) => {
                let &DataAccess { access, value, value_bytes } = cursor.block().get(self.at)?;
                let index = cursor.first_index() + self.at as u64;
                match value_bytes {
                    REFERENCE => ValueEntry { index, value: 0, len: access.size, reference: value },
                    len => ValueEntry { index, value, len: len.into(), reference: VALUE_NONE },
                }
            }
        };
        self.at += 1;
        Some(entry)
    }

    fn value(&mut self, entry: &ValueEntry) -> Result<Option<DataValue>, Error> {
        let (inner, inline) = match &self.entries {
            Entries::Inline(cursor) => (&cursor.inner, true),
            Entries::Beside(cursor) => (&cursor.inner, false),
        };
        let access_index = entry.index;
        if entry.reference == VALUE_NONE {
            let bytes = entry.value.to_le_bytes().get(..entry.len as usize).map(<[u8]>::to_vec);
            return Ok(bytes
                .filter(|bytes| !inline || !bytes.is_empty())
                .map(|bytes| DataValue { access_index, bytes }));
        }
        let bytes = self.data.get(&inner.file, &inner.encoders, entry.reference)?;
        let whole = |bytes: &Vec<u8>| inline || bytes.len() == entry.len as usize;
        Ok(bytes.filter(whole).map(|bytes| DataValue { access_index, bytes }))
    }
}

impl Iterator for ValueCursor {
    type Item = Result<DataValue, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let Some(entry) = self.entry() {
                if let Some(value) = self.value(&entry).transpose() {
                    return Some(value);
                }
            }
            self.at = 0;
            let step = match &mut self.entries {
                Entries::Inline(cursor) => cursor.step(),
                Entries::Beside(cursor) => cursor.step(),
            };
            match step {
                Ok(Some(CursorStep::Block | CursorStep::Gap(_))) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Shard {
    /// The accesses that match with what they read or wrote, where the trace has that: the fast path.
    pub fn data_accesses(&self, filter: &Filter) -> DataCursor {
        DataCursor::new(self, filter)
    }
}

/// Goes through the accesses of a shard with what they read or wrote, a block at a time.
#[derive(Debug)]
pub struct DataCursor {
    cursor: StreamCursor<Vec<DataAccess>>,
    data: VarReader,
    lost: u64,
}

impl DataCursor {
    pub(crate) fn new(shard: &Shard, filter: &Filter) -> Self {
        let filter = Filter { kinds: filter.kinds | KindSet::GAPS, ..filter.clone() };
        let data = VarReader::new(shard.inner.stream(StreamKind::ValuesData, Some(shard.thread)));
        Self { cursor: StreamCursor::new(shard, &filter), data, lost: 0 }
    }

    /// The next accesses, at least one; `None` at the end. Damaged frames are passed over and counted.
    pub fn next_block(&mut self) -> Result<Option<&[DataAccess]>, Error> {
        loop {
            match self.cursor.step()? {
                Some(CursorStep::Block) => return Ok(Some(self.cursor.block())),
                Some(CursorStep::Gap(gap)) => self.lost += gap.count,
                None => return Ok(None),
            }
        }
    }

    /// The index of the current block's first access, where the filter names indices at most.
    pub fn first_index(&self) -> u64 {
        self.cursor.first_index()
    }

    /// The bytes of an access, also where they are more than 8; `None` where none were recorded or they are lost.
    pub fn bytes(&mut self, entry: &DataAccess) -> Result<Option<Vec<u8>>, Error> {
        let inner = &self.cursor.inner;
        match entry.value_bytes {
            0 => Ok(None),
            REFERENCE => self.data.get(&inner.file, &inner.encoders, entry.value),
            len => Ok(entry.value.to_le_bytes().get(..len.into()).map(<[u8]>::to_vec)),
        }
    }

    /// Accesses of damaged frames that were passed over.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
