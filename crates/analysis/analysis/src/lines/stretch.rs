//! An upper bound on how often a line changed its owner, where the trace leaves the order open. A stretch of one
//! thread overlaps those of other threads that begin before it ends. In a stretch, a thread takes the line at
//! most as often as it accesses it, and at most once more than other threads access it in overlapping stretches.

use memref::{Order, ThreadId};

use super::state::Touch;

/// The marks that a thread passed: where its stretches begin.
#[derive(Debug, Default)]
pub(super) struct Marks {
    begins: Vec<Vec<Order>>,
}

impl Marks {
    /// A thread does something after that mark.
    #[inline]
    pub(super) fn pass(&mut self, thread: ThreadId, order: Order) {
        let index = thread.0 as usize;
        if index >= self.begins.len() {
            self.begins.resize(index + 1, Vec::new());
        }
        let begins = &mut self.begins[index];
        if begins.last() != Some(&order) {
            begins.push(order);
        }
    }

    /// The number of the thread's present stretch.
    fn present(&self, thread: ThreadId) -> u32 {
        self.begins.get(thread.0 as usize).map_or(0, |begins| begins.len().saturating_sub(1) as u32)
    }

    fn begin(&self, thread: ThreadId, number: u32) -> Order {
        self.begin_or(thread, number, 0)
    }

    /// Where a stretch ends, as far as is known.
    fn end(&self, thread: ThreadId, number: u32) -> Order {
        self.begin_or(thread, number.saturating_add(1), Order::MAX)
    }

    fn begin_or(&self, thread: ThreadId, number: u32, none: Order) -> Order {
        self.begins
            .get(thread.0 as usize)
            .and_then(|begins| begins.get(number as usize))
            .copied()
            .unwrap_or(none)
    }
}

/// What a thread did to a line in one stretch.
#[derive(Clone, Copy, Debug)]
struct LineStretch {
    thread: ThreadId,
    number: u32,
    accesses: u64,
    writes: u64,
    /// Of these, how many others could have taken the line away from.
    exposed: u64,
    /// Accesses of others that could take the line away from it.
    foreign: u64,
    /// How often the replay has its thread take the line.
    taken: u64,
}

/// The stretches of one line that others may still overlap.
#[derive(Debug, Default)]
pub(super) struct LineStretches {
    open: Vec<LineStretch>,
    /// Of those that are over.
    most: u64,
}

impl LineStretches {
    /// A thread accesses the line.
    #[inline]
    pub(super) fn touch(&mut self, touch: &Touch, takes: bool, marks: &Marks) {
        let number = marks.present(touch.thread);
        let is_present = |s: &LineStretch| s.thread == touch.thread && s.number == number;
        let place = match self.open.iter().rposition(is_present) {
            Some(place) => place,
            None => {
                self.retire(marks.begin(touch.thread, number), marks);
                self.open.push(LineStretch::new(touch.thread, number));
                self.open.len() - 1
            }
        };
        let stretch = &mut self.open[place];
        stretch.accesses += 1;
        stretch.writes += u64::from(touch.writes);
        stretch.taken += u64::from(takes);
    }

    /// Those that ended before a mark overlap nothing that begins there. All that overlaps them has been replayed.
    fn retire(&mut self, order: Order, marks: &Marks) {
        let mut index = 0;
        while let Some(over) = self.open.get(index).copied() {
            if marks.end(over.thread, over.number) > order {
                index += 1;
                continue;
            }
            let mut over = self.open.swap_remove(index);
            let thread = over.thread;
            let span = marks.begin(over.thread, over.number)..marks.end(over.thread, over.number);
            for other in self.open.iter_mut().filter(|other| other.thread != thread) {
                let begin = marks.begin(other.thread, other.number);
                if begin < span.end && span.start < marks.end(other.thread, other.number) {
                    meet(&mut over, other);
                }
            }
            self.most += over.most_taken();
        }
    }

    /// The most changes of owner there can have been; to be asked at the end.
    pub(super) fn most(&mut self, marks: &Marks) -> u64 {
        self.retire(Order::MAX, marks);
        self.most
    }
}

/// Two stretches overlap: what is a read to both takes nothing away.
fn meet(a: &mut LineStretch, b: &mut LineStretch) {
    let before = *a;
    meets(a, b);
    meets(b, &before);
}

fn meets(stretch: &mut LineStretch, other: &LineStretch) {
    stretch.foreign += if stretch.writes > 0 { other.accesses } else { other.writes };
    stretch.exposed = stretch.exposed.max(if other.writes > 0 { stretch.accesses } else { stretch.writes });
}

impl LineStretch {
    fn new(thread: ThreadId, number: u32) -> Self {
        Self { thread, number, accesses: 0, writes: 0, exposed: 0, foreign: 0, taken: 0 }
    }

    /// How often its thread can have taken the line from others in it.
    fn most_taken(&self) -> u64 {
        self.taken.max(self.exposed.min(self.foreign + self.taken))
    }
}
