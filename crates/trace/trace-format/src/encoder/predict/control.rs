//! Predicts which instruction accesses memory next, how many cycles later, with which size and kind: a single token describes all of it.
//!
//! A token that always had the same successor predicts that successor. For one that had several, the prediction uses
//! what came next after the same recent choices (a long and a short history of them), and after the same clue: the
//! value just read, or which instruction wrote the word just read. The latter finds the caller to which a return goes.

use super::coder::Probability;
use crate::encoder::index::Index;

/// No token, no instruction: number 0 of each.
pub(super) const NONE: u32 = 0;

/// How many edges back one is looked for.
const EDGES: usize = 14;
const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;

/// An instruction with the cycles since the access before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Token {
    pub(super) step: u64,
    pub(super) instruction: u32,
    /// What followed last.
    successor: u32,
    /// The most recent edge, plus 1.
    edges: u32,
    /// How often in a row the successor was right.
    run: u8,
    /// Whether it had more than one successor.
    forks: bool,
    /// What last knew best where it forks.
    trusted: u8,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: u32,
    next: u32,
}

/// What followed a token in some context.
#[derive(Clone, Copy, Debug, Default)]
struct Choice {
    token: u32,
    tag: u16,
    confidence: u8,
}

/// Where a context's choice is: its place in the table, and what tells it from others there.
#[derive(Clone, Copy, Debug)]
struct ChoicePlace {
    at: usize,
    tag: u16,
}

const CONTEXTS: usize = 3;

/// What is expected to follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) token: u32,
    /// How sure that is: below [`FlowPredictor::SURENESS`].
    pub(super) sureness: usize,
    /// Whether the token forks, and then where the contexts' choices are.
    places: Option<[ChoicePlace; CONTEXTS]>,
}

/// The program's control flow as far as accesses show it.
#[derive(Debug)]
pub(super) struct FlowPredictor {
    pub(super) tokens: Vec<Token>,
    edges: Vec<Edge>,
    choices: [Vec<Choice>; CONTEXTS],
    shift: u32,
    /// Forks taken, the long and the short memory of them.
    histories: [u64; 2],
    /// The token of the access before.
    pub(super) current: u32,
    /// By instruction and step.
    index: Index,
    /// For ranks of known edges.
    pub(super) ranks: [Probability; 16],
}

/// Runs of right predictions in eight classes.
pub(super) fn class(run: u8) -> usize {
    match run {
        0..=2 => run.into(),
        3..=4 => 3,
        5..=9 => 4,
        10..=30 => 5,
        31..=120 => 6,
        _ => 7,
    }
}

impl FlowPredictor {
    pub(super) const SURENESS: usize = 8 + 8 + CONTEXTS * 8;

    /// With `2^bits` choices a context.
    pub(super) fn new(bits: u32) -> Self {
        Self {
            shift: 64 - bits,
            tokens: vec![Token::default()],
            edges: Vec::new(),
            choices: std::array::from_fn(|_| vec![Choice::default(); 1 << bits]),
            histories: [0; 2],
            current: NONE,
            index: Index::new(),
            ranks: [Probability::EVEN; 16],
        }
    }

    fn place(&self, context: u64) -> ChoicePlace {
        let hash =
            (context ^ u64::from(self.current).wrapping_mul(0xd6e8_feb8_6659_fd93)).wrapping_mul(PRIME);
        ChoicePlace { at: (hash >> self.shift) as usize, tag: (hash >> 16) as u16 }
    }

    #[inline(always)]
    pub(super) fn expect(&self, clue: impl FnOnce() -> u64) -> Expected {
        let token = &self.tokens[self.current as usize];
        if !token.forks {
            return Expected { token: token.successor, sureness: class(token.run), places: None };
        }
        self.expect_fork(token, clue())
    }

    fn expect_fork(&self, token: &Token, clue: u64) -> Expected {
        let contexts = [self.histories[0], clue, self.histories[1]];
        let places: [_; CONTEXTS] = std::array::from_fn(|i| self.place(contexts[i].wrapping_add(i as u64)));
        let mut best =
            Expected { token: token.successor, sureness: 8 + class(token.run), places: Some(places) };
        let mut confidence = 0;
        for (i, &ChoicePlace { at, tag }) in places.iter().enumerate() {
            let choice = &self.choices[i][at];
            if choice.tag != tag || choice.token == NONE {
                continue;
            }
            let trust = choice.confidence * 2 + u8::from(token.trusted == i as u8) + 1;
            if trust > confidence {
                confidence = trust;
                best.token = choice.token;
                best.sureness = 16 + i * 8 + usize::from(choice.confidence.min(7));
            }
        }
        best
    }

    /// The edge's place among the current token's, from the most recent on.
    pub(super) fn rank(&self, to: u32) -> Option<usize> {
        let mut at = self.tokens[self.current as usize].edges;
        for rank in 0..EDGES {
            let edge = self.edges.get((at as usize).wrapping_sub(1))?;
            if edge.to == to {
                return Some(rank);
            }
            at = edge.next;
        }
        None
    }

    /// The token at a rank.
    pub(super) fn at_rank(&self, rank: usize) -> Option<u32> {
        let mut at = self.tokens[self.current as usize].edges;
        for _ in 0..rank {
            at = self.edges.get((at as usize).wrapping_sub(1))?.next;
        }
        self.edges.get((at as usize).wrapping_sub(1)).map(|edge| edge.to)
    }

    /// The token of that instruction and step, if it is known.
    pub(super) fn find(&self, instruction: u32, step: u64) -> Option<u32> {
        self.index.find(key(instruction, step)).filter(|&token| {
            let token = &self.tokens[token as usize];
            token.instruction == instruction && token.step == step
        })
    }

    pub(super) fn add(&mut self, instruction: u32, step: u64) -> u32 {
        let number = self.tokens.len() as u32;
        self.tokens.push(Token { instruction, step, ..Token::default() });
        self.index.insert(key(instruction, step), number);
        number
    }

    /// Goes on to `token`, which followed the expected one or not.
    #[inline]
    pub(super) fn advance(&mut self, expected: &Expected, token: u32) {
        let current = &mut self.tokens[self.current as usize];
        if expected.places.is_none() && expected.token == token {
            current.run = current.run.saturating_add(1);
        } else {
            self.learn(expected, token);
        }
        self.current = token;
    }

    #[inline(never)]
    fn learn(&mut self, expected: &Expected, token: u32) {
        let right = expected.token == token;
        let current = &mut self.tokens[self.current as usize];
        if current.successor == token {
            current.run = current.run.saturating_add(1);
        } else {
            current.forks |= current.successor != NONE;
            current.run = 0;
        }
        let old = std::mem::replace(&mut current.successor, token);
        if old != token {
            self.touch_edge(token);
        }
        let Some(places) = expected.places else {
            if old != NONE && old != token {
                self.remember(token);
            }
            return;
        };
        let mut trusted = None;
        for (i, ChoicePlace { at, tag }) in places.into_iter().enumerate() {
            let choice = &mut self.choices[i][at];
            if choice.tag == tag && choice.token != NONE {
                if choice.token == token {
                    trusted = trusted.or(Some(i as u8));
                    choice.confidence = (choice.confidence + 1).min(7);
                } else if choice.confidence == 0 {
                    choice.token = token;
                } else {
                    choice.confidence /= 2;
                }
            } else if !right || choice.token == NONE {
                if choice.confidence == 0 || choice.token == NONE {
                    *choice = Choice { token, tag, confidence: 0 };
                } else {
                    choice.confidence -= 1;
                }
            }
        }
        if !right && let Some(trusted) = trusted {
            self.tokens[self.current as usize].trusted = trusted;
        }
        self.remember(token);
    }

    fn remember(&mut self, token: u32) {
        let choice = (u64::from(token) ^ u64::from(self.current) << 20).wrapping_mul(PRIME) >> 40;
        self.histories[0] = (self.histories[0] << 4) ^ choice;
        self.histories[1] = (self.histories[1] << 20) ^ choice;
    }

    /// Moves the edge to the front, or makes it.
    fn touch_edge(&mut self, to: u32) {
        let head = self.tokens[self.current as usize].edges;
        let (mut at, mut before) = (head, None);
        for _ in 0..EDGES {
            let Some(edge) = self.edges.get((at as usize).wrapping_sub(1)).copied() else { break };
            if edge.to == to {
                let Some(before) = before else { return };
                self.edges[before as usize - 1].next = edge.next;
                self.edges[at as usize - 1].next = head;
                self.tokens[self.current as usize].edges = at;
                return;
            }
            before = Some(at);
            at = edge.next;
        }
        self.edges.push(Edge { to, next: head });
        self.tokens[self.current as usize].edges = self.edges.len() as u32;
    }
}

fn key(instruction: u32, step: u64) -> u64 {
    (u64::from(instruction) << 32 ^ step).wrapping_add(1)
}
