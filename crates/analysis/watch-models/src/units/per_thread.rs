//! The state of a unit for each thread.

use memref::ThreadId;

/// State by thread, made at first use.
#[derive(Clone, Debug)]
pub(crate) struct PerThread<T> {
    all: Vec<T>,
}

impl<T> PerThread<T> {
    pub(crate) fn new() -> Self {
        Self { all: Vec::new() }
    }

    #[inline]
    pub(crate) fn get(&mut self, thread: ThreadId, make: impl FnMut() -> T) -> &mut T {
        let index = thread.0 as usize;
        if index >= self.all.len() {
            self.all.resize_with(index + 1, make);
        }
        &mut self.all[index]
    }
}
