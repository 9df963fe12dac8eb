//! SVPC's predictors: last values, contexts of values, contexts of differences (Simutrace, section 3.3 and table 1).
//!
//! Tables hold two values per line, the most recent first. A history of order three holds hashes
//! of the last one, two and three values. The predictions, and the order in which identifiers
//! are assigned, determine the bytes: nothing may be changed here without a new encoder number.

/// Values of a line.
const LINE: usize = 2;
/// Values of a line of last values.
const LAST: usize = 4;
/// Order-1 tables of instructions, cycles and differences.
const SHORT_BITS: u32 = 17;
/// Order-3 tables, and the order-1 table of values.
const LONG_BITS: u32 = 19;
/// Rows by instruction.
const ROW_BITS: u32 = 16;

/// Keeps the low `bits` bits.
fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}

/// Folds a value into `bits` bits.
fn hash(mut value: u64, bits: u32) -> u32 {
    let mut folded = 0u32;
    while value != 0 {
        folded ^= value as u32;
        value >>= bits;
    }
    folded & mask(bits)
}

/// Hashes of the last one, two and three values.
#[derive(Clone, Copy, Debug, Default)]
struct History([u32; 3]);

impl History {
    fn push(&mut self, value: u64, bits: u32) {
        let hash = hash(value, bits);
        let [one, two, _] = self.0;
        self.0 = [hash, one << 1 ^ hash, two << 1 ^ hash];
    }
}

/// Lines of `N` values.
#[derive(Debug)]
struct PredictionTable<const N: usize> {
    lines: Vec<[u64; N]>,
}

impl<const N: usize> PredictionTable<N> {
    fn new(bits: u32) -> Self {
        Self { lines: vec![std::array::from_fn(|place| place as u64); 1 << bits] }
    }

    fn line(&self, key: u32) -> &[u64; N] {
        &self.lines[key as usize & (self.lines.len() - 1)]
    }

    /// Makes a value the most recent one, unless it is already.
    fn push(&mut self, key: u32, value: u64) {
        let place = key as usize & (self.lines.len() - 1);
        let line = &mut self.lines[place];
        if line[0] != value {
            line.copy_within(..N - 1, 1);
            line[0] = value;
        }
    }
}

/// How often each identifier was chosen: of several right ones, the encoder takes the one chosen most.
#[derive(Debug)]
pub(super) struct Usage([u64; 11]);

impl Usage {
    pub(super) fn new() -> Self {
        Self([0; 11])
    }

    /// The identifier of the best right prediction; of equals the last.
    pub(super) fn choose(&mut self, predictions: &[u64], actual: u64) -> Option<u8> {
        let right = |&(_, prediction): &(usize, &u64)| *prediction == actual;
        let (id, _) = predictions.iter().enumerate().filter(right).max_by_key(|(id, _)| self.0[*id])?;
        self.0[id] += 1;
        Some(id as u8)
    }
}

/// Predicts instructions, and the sums of step and instruction: global contexts of order 1 and 3.
#[derive(Debug)]
pub(super) struct GlobalBank {
    history: History,
    short: PredictionTable<LINE>,
    long: PredictionTable<LINE>,
}

/// The identifier that says that no prediction of [`GlobalBank`] was right.
pub(super) const GLOBAL_MISS: u8 = 4;

impl GlobalBank {
    pub(super) fn new() -> Self {
        Self {
            history: History::default(),
            short: PredictionTable::new(SHORT_BITS),
            long: PredictionTable::new(LONG_BITS),
        }
    }

    pub(super) fn predictions(&self) -> [u64; 4] {
        let (short, long) = (self.short.line(self.history.0[0]), self.long.line(self.history.0[2]));
        [short[0], short[1], long[0], long[1]]
    }

    pub(super) fn update(&mut self, value: u64) {
        self.short.push(self.history.0[0], value);
        self.long.push(self.history.0[2], value);
        self.history.push(value, SHORT_BITS);
    }
}

/// Predicts a field of an instruction's accesses: addresses, or data.
#[derive(Debug)]
pub(super) struct ValueBank {
    /// Values are of 32 or 64 bits.
    mask: u64,
    strides: Vec<History>,
    short: PredictionTable<LINE>,
    long: PredictionTable<LINE>,
    last: PredictionTable<LAST>,
    values: Vec<u32>,
    contexts: PredictionTable<LINE>,
}

/// The identifier that says that no prediction of [`ValueBank`] was right.
pub(super) const VALUE_MISS: u8 = 10;

impl ValueBank {
    pub(super) fn new(bits: u32) -> Self {
        Self {
            mask: if bits == 32 { u64::from(u32::MAX) } else { u64::MAX },
            strides: vec![History::default(); 1 << ROW_BITS],
            short: PredictionTable::new(SHORT_BITS),
            long: PredictionTable::new(LONG_BITS),
            last: PredictionTable::new(ROW_BITS),
            values: vec![0; 1 << ROW_BITS],
            contexts: PredictionTable::new(LONG_BITS),
        }
    }

    fn row(ip: u64) -> u32 {
        ip as u32 & mask(ROW_BITS)
    }

    pub(super) fn predictions(&self, ip: u64) -> [u64; 10] {
        let row = Self::row(ip);
        let history = self.strides[row as usize];
        let (short, long) = (self.short.line(history.0[0]), self.long.line(history.0[2]));
        let last = self.last.line(row);
        let context = self.contexts.line(self.values[row as usize]);
        let after = |stride: u64| last[0].wrapping_add(stride) & self.mask;
        [
            after(short[0]),
            after(short[1]),
            after(long[0]),
            after(long[1]),
            last[0],
            last[1],
            last[2],
            last[3],
            context[0],
            context[1],
        ]
    }

    pub(super) fn update(&mut self, ip: u64, value: u64) {
        let row = Self::row(ip);
        let stride = value.wrapping_sub(self.last.line(row)[0]) & self.mask;
        let history = &mut self.strides[row as usize];
        self.short.push(history.0[0], stride);
        self.long.push(history.0[2], stride);
        history.push(stride, SHORT_BITS);
        self.last.push(row, value);
        let context = &mut self.values[row as usize];
        self.contexts.push(*context, value);
        *context = hash(value, LONG_BITS);
    }
}
