//! Stack distances: the number of other lines used since a line was last used. A fully
//! associative LRU cache of that many lines or fewer misses the access (Mattson et al., 1970).
//!
//! The lines form a stack with the most recently used on top. The top part is a short list, in which most lines are found. Below
//! it, each line has the time at which it left that list, and a Fenwick tree counts the lines that left it later (Olken, 1981).

use rustc_hash::FxHashMap;

/// Lines of the list.
const RECENT: usize = 32;
const LEAST_TIMES: usize = 1 << 12;
/// A time at which nothing left the list, or what did was used again.
const NOTHING: u64 = u64::MAX;

/// A line, and what the caller keeps of it.
#[derive(Clone, Copy, Debug)]
struct RecentLine {
    line: u64,
    window: u32,
}

#[derive(Clone, Copy, Debug)]
struct OlderLine {
    time: u32,
    window: u32,
}

/// A line was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineUsed {
    /// Other lines since it was used last; `None` where it never was.
    pub(super) distance: Option<u64>,
    /// Whether this was the first use in its window.
    pub(super) is_first_of_window: bool,
}

/// The stack of lines.
#[derive(Debug)]
pub(super) struct StackDistances {
    recent: Vec<RecentLine>,
    older: FxHashMap<u64, OlderLine>,
    /// The line that left the list at each time.
    left: Vec<u64>,
    /// The Fenwick tree over them.
    tree: Vec<u32>,
}

impl StackDistances {
    pub(super) fn new() -> Self {
        Self {
            recent: Vec::with_capacity(RECENT + 1),
            older: FxHashMap::default(),
            left: Vec::with_capacity(LEAST_TIMES),
            tree: vec![0; LEAST_TIMES + 1],
        }
    }

    /// How many different lines were used so far.
    pub(super) fn lines(&self) -> u64 {
        (self.recent.len() + self.older.len()) as u64
    }

    /// Uses a line, in a window that is numbered from 1 on.
    #[inline]
    pub(super) fn access(&mut self, line: u64, window: u32) -> LineUsed {
        if let Some(first) = self.recent.first_mut()
            && first.line == line
        {
            let is_first_of_window = first.window != window;
            first.window = window;
            return LineUsed { distance: Some(0), is_first_of_window };
        }
        match self.recent.iter().position(|recent| recent.line == line) {
            Some(place) => {
                let is_first_of_window = self.recent[place].window != window;
                self.recent.copy_within(..place, 1);
                self.recent[0] = RecentLine { line, window };
                LineUsed { distance: Some(place as u64), is_first_of_window }
            }
            None => self.access_older(line, window),
        }
    }

    fn access_older(&mut self, line: u64, window: u32) -> LineUsed {
        let known = self.older.remove(&line);
        let distance = known.map(|known| {
            let later = self.older.len() as u64 + 1 - self.count_to(known.time);
            self.add(known.time, -1);
            self.left[known.time as usize] = NOTHING;
            RECENT as u64 + later
        });
        self.recent.insert(0, RecentLine { line, window });
        if self.recent.len() > RECENT
            && let Some(leaves) = self.recent.pop()
        {
            self.leave(leaves);
        }
        LineUsed { distance, is_first_of_window: known.is_none_or(|known| known.window != window) }
    }

    fn leave(&mut self, leaves: RecentLine) {
        if self.left.len() + 1 >= self.tree.len() {
            self.compact();
        }
        let time = self.left.len() as u32;
        self.left.push(leaves.line);
        self.add(time, 1);
        self.older.insert(leaves.line, OlderLine { time, window: leaves.window });
    }

    /// How many left the list up to a time, and are there still.
    fn count_to(&self, time: u32) -> u64 {
        let mut sum = 0;
        let mut at = time as usize + 1;
        while at > 0 {
            sum += u64::from(self.tree[at]);
            at &= at - 1;
        }
        sum
    }

    fn add(&mut self, time: u32, by: i32) {
        let mut at = time as usize + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add_signed(by);
            at += at & at.wrapping_neg();
        }
    }

    /// New times for the lines that are there, in their order.
    fn compact(&mut self) {
        self.left.retain(|line| *line != NOTHING);
        for (time, line) in self.left.iter().enumerate() {
            if let Some(older) = self.older.get_mut(line) {
                older.time = time as u32;
            }
        }
        let times = (2 * self.left.len()).max(LEAST_TIMES);
        self.tree.clear();
        self.tree.resize(times + 1, 0);
        // Each node is told to its parent when it is whole.
        for at in 1..=times {
            self.tree[at] += u32::from(at <= self.left.len());
            let parent = at + (at & at.wrapping_neg());
            if parent <= times {
                self.tree[parent] += self.tree[at];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_a_plain_stack() {
        let mut plain: Vec<u64> = Vec::new();
        let mut stack = StackDistances::new();
        let mut state = 1_u64;
        for turn in 0..40_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Some lines often, some seldom, and a few once.
            let line = match state >> 60 {
                0..8 => state >> 33 & 15,
                8..15 => state >> 33 & 511,
                _ => turn + 10_000,
            };
            let expect = plain.iter().position(|other| *other == line);
            if let Some(place) = expect {
                plain.remove(place);
            }
            plain.insert(0, line);
            let used = stack.access(line, 1 + (turn / 1000) as u32);
            assert_eq!(used.distance, expect.map(|place| place as u64), "turn {turn}");
        }
        assert_eq!(stack.lines(), plain.len() as u64);
    }

    #[test]
    fn a_window_has_each_line_once() {
        let mut stack = StackDistances::new();
        let count = |stack: &mut StackDistances, window| {
            let lines = (0..100).chain(0..100);
            lines.filter(|line| stack.access(*line, window).is_first_of_window).count()
        };
        assert_eq!((count(&mut stack, 1), count(&mut stack, 2)), (100, 100));
    }
}
