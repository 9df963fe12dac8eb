//! The worker pool: a fixed number of threads for all sessions (Simutrace, section 2.1).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::lock;

type WorkItem = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct QueuedWork {
    jobs: VecDeque<WorkItem>,
    closed: bool,
}

#[derive(Default)]
struct WorkQueue {
    queue: Mutex<QueuedWork>,
    changed: Condvar,
}

/// The threads. What they have to do is bounded by the memory that jobs carry, not here.
pub struct Workers {
    shared: Arc<WorkQueue>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Workers {
    /// Starts so many threads, or one.
    pub fn start(count: usize) -> Self {
        let shared = Arc::<WorkQueue>::default();
        let threads = (0..count.max(1))
            .filter_map(|number| {
                let shared = shared.clone();
                let name = format!("memtap-worker-{number}");
                std::thread::Builder::new().name(name).spawn(move || work(&shared)).ok()
            })
            .collect();
        Self { shared, threads }
    }

    /// How many there are; the caller of [`Self::run`] does the work where there is none.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Does it, now or later. Jobs begin in the order in which they came.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        if self.threads.is_empty() {
            // The system gave us no thread at all.
            job();
            return;
        }
        lock(&self.shared.queue).jobs.push_back(Box::new(job));
        self.shared.changed.notify_one();
    }
}

fn work(shared: &WorkQueue) {
    loop {
        let mut queue = lock(&shared.queue);
        let job = loop {
            if let Some(job) = queue.jobs.pop_front() {
                break job;
            }
            if queue.closed {
                return;
            }
            queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        job();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.changed.notify_all();
        let own = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last owner may be a worker, whose job held it.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
    }
}
