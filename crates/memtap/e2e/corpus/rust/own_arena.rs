// An arena that hands out parts of one vector.
// command: errors
// record: --data
// expect: nothing
use std::hint::black_box;

struct Arena {
    bytes: Vec<u64>,
    used: usize,
}

impl Arena {
    fn take(&mut self, words: usize) -> &mut [u64] {
        let from = self.used;
        self.used += words;
        &mut self.bytes[from..self.used]
    }
}

fn main() {
    let mut arena = Arena { bytes: vec![0; 500], used: 0 };
    for words in 1..30 {
        let part = arena.take(words);
        part.fill(words as u64);
        black_box(part[words - 1]);
    }
}
