//! An object that is read like a file.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use tokio::runtime::{Builder, Runtime};
use trace_format::TraceSource;

use crate::blocks::{BLOCK_BYTES, Block, Blocks};
use crate::store::{Place, find};
use crate::words::said_by;

/// An object of a store.
///
/// Requests are made by threads of their own, so that it can be read from wherever a file can, also from tasks of another runtime.
#[derive(Debug)]
pub struct ObjectSource {
    object: Arc<Object>,
}

#[derive(Debug)]
struct Object {
    address: String,
    place: Place,
    bytes: u64,
    /// What it was when it was opened, where the store says so: another object under its name is not read.
    tag: Option<String>,
    blocks: Mutex<Blocks>,
    changed: Condvar,
}

/// The threads of all objects.
fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made =
        Builder::new_multi_thread().worker_threads(2).thread_name("object store").enable_all().build()?;
    Ok(RUNTIME.get_or_init(|| made))
}

/// Waits for what only a runtime can do.
fn wait<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    let (done, result) = std::sync::mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        let _gone = done.send(task.await);
    });
    result.recv().map_err(|_| io::Error::other("the thread that asks the store has ended"))
}

impl ObjectSource {
    /// Finds an object by its address.
    ///
    /// # Errors
    /// Where there is none, or it can't be asked for.
    pub fn open(address: &str) -> io::Result<Self> {
        let place = find(address).map_err(io::Error::other)?;
        Self::at(address.to_owned(), place)
    }

    fn at(address: String, place: Place) -> io::Result<Self> {
        let Place { store, path } = place.clone();
        let found = wait(async move { store.head(&path).await })?.map_err(|error| said_by(&error))?;
        let object = Object {
            address,
            place,
            bytes: found.size,
            tag: found.e_tag,
            blocks: Mutex::new(Blocks::new(found.size)),
            changed: Condvar::new(),
        };
        Ok(Self { object: Arc::new(object) })
    }
}

impl Object {
    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block_bytes(&self, number: u64) -> Range<u64> {
        let start = number * BLOCK_BYTES;
        start..(start + BLOCK_BYTES).min(self.bytes)
    }

    /// Asks for blocks, and gives them to whoever waits.
    async fn fetch(self: Arc<Self>, first: u64, last: u64) {
        let range = self.block_bytes(first).start..self.block_bytes(last).end;
        let fetched = self.range(range.clone()).await;
        let mut blocks = self.blocks();
        for number in first..=last {
            let of_block = self.block_bytes(number);
            blocks.put(
                number,
                match &fetched {
                    Ok(bytes) => Block::Ready(bytes.slice(
                        (of_block.start - range.start) as usize..(of_block.end - range.start) as usize,
                    )),
                    Err(words) => Block::Failed(words.clone()),
                },
            );
        }
        drop(blocks);
        self.changed.notify_all();
    }

    async fn range(&self, range: Range<u64>) -> Result<Bytes, String> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: self.tag.clone(),
            ..GetOptions::default()
        };
        let Place { store, path } = &self.place;
        let bytes = async { store.get_opts(path, options).await?.bytes().await }.await;
        let bytes = bytes.map_err(|error| said_by(&error).to_string())?;
        match bytes.len() as u64 == range.end - range.start {
            true => Ok(bytes),
            false => Err("the store gives another number of bytes than it was asked for".to_owned()),
        }
    }

    /// Asks for what is not there of these blocks, and for what lies ahead.
    fn ask_for(self: &Arc<Self>, blocks: &mut Blocks, first: u64, last: u64) -> io::Result<()> {
        let runtime = runtime()?;
        for (first, last) in blocks.wanted(first, last) {
            runtime.spawn(self.clone().fetch(first, last));
        }
        Ok(())
    }

    /// A block; `last` is the last one that its reader needs.
    fn block(self: &Arc<Self>, number: u64, last: u64) -> io::Result<Bytes> {
        let mut blocks = self.blocks();
        self.ask_for(&mut blocks, number, last)?;
        loop {
            match blocks.get(number) {
                Some(Block::Ready(bytes)) => return Ok(bytes.clone()),
                Some(Block::Failed(words)) => return Err(io::Error::other(words.clone())),
                Some(Block::Fetching) => {
                    blocks = self.changed.wait(blocks).unwrap_or_else(PoisonError::into_inner);
                }
                // It came, and others took its place.
                None => self.ask_for(&mut blocks, number, number)?,
            }
        }
    }
}

impl TraceSource for ObjectSource {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.object.bytes)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        if end > self.object.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let last = end.saturating_sub(1) / BLOCK_BYTES;
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let number = at / BLOCK_BYTES;
            let block = self.object.block(number, last)?;
            let from = &block[(at % BLOCK_BYTES) as usize..];
            let (now, later) = rest.split_at_mut(from.len().min(rest.len()));
            now.copy_from_slice(&from[..now.len()]);
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn beside(&self, suffix: &str) -> io::Result<Option<Box<dyn TraceSource>>> {
        let Place { store, path } = self.object.place.clone();
        let path = Path::from(format!("{path}{suffix}"));
        let address = format!("{}{suffix}", self.object.address);
        match Self::at(address, Place { store, path }) {
            Ok(source) => Ok(Some(Box::new(source))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use proptest::prelude::*;

    use super::*;

    /// An object of a store in memory.
    fn object(bytes: &[u8]) -> (Arc<InMemory>, ObjectSource) {
        let (store, path) = (Arc::new(InMemory::new()), Path::from("run.memtap"));
        put(&store, &path, bytes);
        let place = Place { store: store.clone(), path };
        let source = ObjectSource::at("memory:///run.memtap".to_owned(), place).unwrap();
        (store, source)
    }

    fn put(store: &Arc<InMemory>, path: &Path, bytes: &[u8]) {
        let (store, path, bytes) = (store.clone(), path.clone(), bytes.to_vec());
        wait(async move { store.put(&path, bytes.into()).await }).unwrap().unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        /// Several threads read what a vector has there.
        #[test]
        fn it_is_read_as_its_bytes_are(
            len in 0u64..5 * BLOCK_BYTES,
            reads in prop::collection::vec((0u64..6 * BLOCK_BYTES, 0usize..3 * BLOCK_BYTES as usize), 1..12),
        ) {
            let bytes: Vec<u8> = (0..len).map(|at| (at / 251 + at % 256) as u8).collect();
            let (_store, source) = object(&bytes);
            prop_assert_eq!(source.len_bytes().unwrap(), len);
            std::thread::scope(|scope| {
                for part in reads.chunks(4) {
                    let (source, bytes) = (&source, &bytes);
                    scope.spawn(move || {
                        for &(offset, size) in part {
                            let (mut read, mut model) = (vec![0; size], vec![0; size]);
                            let told = source.read_at(offset, &mut read).is_ok();
                            // No bytes can be read from anywhere.
                            let expected = offset + size as u64 <= len;
                            if expected && size > 0 {
                                bytes.read_at(offset, &mut model).unwrap();
                            }
                            assert_eq!((told, read), (expected, model));
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn what_takes_its_place_is_not_read() {
        let (store, source) = object(&vec![1; 4 * BLOCK_BYTES as usize]);
        let mut bytes = [0; 8];
        source.read_at(0, &mut bytes).unwrap();
        put(&store, &source.object.place.path, &vec![2; 4 * BLOCK_BYTES as usize]);
        let error = source.read_at(3 * BLOCK_BYTES, &mut bytes).unwrap_err();
        assert_eq!(error.to_string(), "it was replaced or removed since it was opened");
    }

    #[test]
    fn what_lies_beside_it_has_its_name_with_a_suffix() {
        let (store, source) = object(b"trace");
        assert!(source.beside(".index").unwrap().is_none());
        put(&store, &Path::from("run.memtap.index"), b"index");
        let index = source.beside(".index").unwrap().expect("it is there");
        let mut bytes = [0; 5];
        index.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"index");
    }
}
