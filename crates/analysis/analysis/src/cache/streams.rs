//! A stream prefetcher: a run of misses to neighbouring lines of one page, upwards or downwards, prefetches the next lines.

/// Streams that are followed at a time.
const STREAMS: usize = 16;
/// Misses in one direction before lines are fetched.
const TRAINED: u32 = 2;
/// Lines that are fetched at a time.
const AHEAD: u64 = 2;

#[derive(Clone, Copy, Debug)]
struct PrefetchStream {
    last: u64,
    up: bool,
    seen: u32,
    used: u64,
}

/// The streams of one core.
#[derive(Clone, Debug)]
pub(super) struct StreamPrefetcher {
    streams: Vec<PrefetchStream>,
    page_lines: u64,
    time: u64,
}

impl StreamPrefetcher {
    pub(super) fn new(line_bytes: u64) -> Self {
        let page_lines = (memref::VirtAddr::PAGE_BYTES / line_bytes).max(1);
        Self { streams: Vec::with_capacity(STREAMS), page_lines, time: 0 }
    }

    /// The lines to fetch after a miss, or after the first use of a line that was fetched.
    pub(super) fn miss(&mut self, line: u64) -> impl Iterator<Item = u64> + use<> {
        self.time += 1;
        let (page_lines, time) = (self.page_lines, self.time);
        let page = line / page_lines;
        let is_near = |s: &PrefetchStream| {
            s.last / page_lines == page && s.last.abs_diff(line) <= AHEAD && s.last != line
        };
        let mut next = None;
        if let Some(stream) = self.streams.iter_mut().find(|stream| is_near(stream)) {
            let up = line > stream.last;
            stream.seen = if stream.up == up { stream.seen + 1 } else { 1 };
            (stream.last, stream.up, stream.used) = (line, up, time);
            next = (stream.seen >= TRAINED).then_some(up);
        } else {
            let new = PrefetchStream { last: line, up: true, seen: 0, used: time };
            if self.streams.len() < STREAMS {
                self.streams.push(new);
            } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.used) {
                *oldest = new;
            }
        }
        let ahead = (1..=AHEAD).filter_map(move |step| match next? {
            true => line.checked_add(step),
            false => line.checked_sub(step),
        });
        ahead.filter(move |ahead| ahead / page_lines == page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_misses_fetches_what_comes_next() {
        let mut streams = StreamPrefetcher::new(64);
        let mut check = |line, expect: &[u64]| assert_eq!(streams.miss(line).collect::<Vec<_>>(), expect);
        check(10, &[]);
        check(11, &[]);
        check(12, &[13, 14]);
        check(100, &[]);
        check(13, &[14, 15]);
        // The other way round, and not out of the page.
        check(131, &[]);
        check(130, &[]);
        check(129, &[128]);
        check(62, &[]);
        check(63, &[]);
    }
}
