//! A scan as a stream that can be pulled, as Arrow's interfaces require.
//! Threads read ahead, and wait when nobody takes what they have read.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use crate::{Error, Scan, ScanPart, TraceTables};

/// Batches a thread that wait for who takes them.
const WAITING: usize = 4;
/// Parts for each thread, so that one that has a slow part keeps nobody waiting.
const PARTS: usize = 4;

/// In which order a stream gives its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOrder {
    /// That of the trace: thread by thread, each by its cycles. One thread reads.
    AsRecorded,
    /// As they come: rows of one batch are in order, batches are not. Each core reads.
    Any,
}

/// The batches of a scan, read ahead by threads that end with it.
#[derive(Debug)]
pub struct TraceStream {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch, Error>>,
    parts: Arc<Mutex<VecDeque<ScanPart>>>,
}

impl TraceTables {
    /// Begins to read.
    ///
    /// # Errors
    /// Where the scan asks for a column that the table does not have.
    pub fn stream(&self, scan: &Scan, order: BatchOrder) -> Result<TraceStream, Error> {
        let threads = match order {
            BatchOrder::AsRecorded => 1,
            BatchOrder::Any => thread::available_parallelism().map_or(1, usize::from),
        };
        let schema = scan.schema()?;
        let most = if threads == 1 { 1 } else { threads * PARTS };
        let parts = self.parts(scan, most);
        let readers = threads.min(parts.len());
        let parts = Arc::new(Mutex::new(VecDeque::from(parts)));
        let (sender, batches) = sync_channel(readers * WAITING);
        for _ in 0..readers {
            let reader = Reader {
                tables: self.clone(),
                scan: scan.clone(),
                parts: parts.clone(),
                sender: sender.clone(),
            };
            thread::spawn(move || reader.run());
        }
        Ok(TraceStream { schema, batches, parts })
    }
}

struct Reader {
    tables: TraceTables,
    scan: Scan,
    parts: Arc<Mutex<VecDeque<ScanPart>>>,
    sender: SyncSender<Result<RecordBatch, Error>>,
}

impl Reader {
    fn run(self) {
        while let Some(part) = self.next() {
            let read = self.tables.read(&self.scan, &part, &mut |batch| self.sender.send(Ok(batch)).is_ok());
            if let Err(error) = read {
                // Who is gone does not want to know.
                let _ = self.sender.send(Err(error));
                return;
            }
        }
    }

    fn next(&self) -> Option<ScanPart> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Iterator for TraceStream {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.recv().ok()
    }
}

impl Drop for TraceStream {
    /// Nobody begins another part; who reads one ends at its next batch.
    fn drop(&mut self) {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A stream with the errors of Arrow, as its interfaces ask for.
#[derive(Debug)]
pub struct ArrowStream(pub TraceStream);

impl Iterator for ArrowStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.0.next()?;
        Some(batch.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for ArrowStream {
    fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }
}
