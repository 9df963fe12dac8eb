//! Reachability of blocks that were never released, in the terms of Valgrind's memcheck.

use super::inner::InnerPointers;

/// Whether a pointer to a block that was never released was still stored at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeakKind {
    /// There was none.
    Definite,
    /// Only in other blocks that are lost.
    Indirect,
    /// Only to its middle, or by way of one.
    Possible,
    /// There was: the program could still have released it.
    Reachable,
}

impl LeakKind {
    /// In JSON, and as memcheck's `--show-leak-kinds` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Definite => "definite",
            Self::Indirect => "indirect",
            Self::Possible => "possible",
            Self::Reachable => "reachable",
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Definite => "definitely lost",
            Self::Indirect => "indirectly lost",
            Self::Possible => "possibly lost",
            Self::Reachable => "still reachable",
        }
    }
}

/// A word of memory that may be a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PointerWord {
    pub(super) at: u64,
    pub(super) value: u64,
}

/// A block that was not released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveBlock {
    pub(super) start: u64,
    pub(super) len: u64,
    /// Pointers into it that count as one to its start.
    pub(super) inner: InnerPointers,
}

/// The kind of each of these blocks, which are in the order of their addresses. `roots` are pointers outside of all blocks; `words` those in
/// any memory, in the order of their addresses.
pub(super) fn leak_kinds(
    blocks: &[LiveBlock],
    words: &[PointerWord],
    roots: impl Iterator<Item = u64>,
) -> Vec<LeakKind> {
    let find = |value: u64| {
        let number = blocks.partition_point(|block| block.start <= value).checked_sub(1)?;
        let into = value - blocks[number].start;
        (into < blocks[number].len.max(1)).then_some((number, !blocks[number].inner.keep(into)))
    };
    let targets = |number: usize| {
        let LiveBlock { start, len, .. } = blocks[number];
        let first = words.partition_point(|word| word.at < start);
        let inside = words[first..].iter().take_while(move |word| word.at < start.saturating_add(len));
        inside.filter_map(|word| find(word.value))
    };
    let mut kinds: Vec<Option<LeakKind>> = vec![None; blocks.len()];
    let mut waiting: Vec<(usize, bool)> = roots.filter_map(find).collect();
    while let Some((number, is_inner)) = waiting.pop() {
        let kind = if is_inner { LeakKind::Possible } else { LeakKind::Reachable };
        if kinds[number].is_some_and(|known| known >= kind) {
            continue;
        }
        kinds[number] = Some(kind);
        waiting.extend(targets(number).map(|(target, is_middle)| (target, is_inner || is_middle)));
    }
    // Of blocks that point to each other, one is lost and the others with it.
    for leader in 0..blocks.len() {
        if kinds[leader].is_some() {
            continue;
        }
        kinds[leader] = Some(LeakKind::Definite);
        let mut waiting: Vec<usize> = vec![leader];
        while let Some(number) = waiting.pop() {
            for (target, _) in targets(number).filter(|(target, _)| *target != leader) {
                match kinds[target] {
                    None => {
                        kinds[target] = Some(LeakKind::Indirect);
                        waiting.push(target);
                    }
                    Some(LeakKind::Definite) => kinds[target] = Some(LeakKind::Indirect),
                    Some(_) => {}
                }
            }
        }
    }
    kinds.into_iter().map(|kind| kind.unwrap_or(LeakKind::Definite)).collect()
}

#[cfg(test)]
mod tests {
    use super::LeakKind::{Definite, Indirect, Possible, Reachable};
    use super::*;

    /// Blocks of 32 bytes at 0x100, 0x200, ...; pointers in them, and roots.
    fn check(blocks: usize, words: &[(u64, u64)], roots: &[u64], expect: &[LeakKind]) {
        check_kept(&vec![InnerPointers::None; blocks], words, roots, expect);
    }

    fn check_kept(inner: &[InnerPointers], words: &[(u64, u64)], roots: &[u64], expect: &[LeakKind]) {
        let block = |(start, inner): (u64, &InnerPointers)| LiveBlock { start, len: 32, inner: *inner };
        let blocks: Vec<LiveBlock> = (0x100..).step_by(0x100).zip(inner).map(block).collect();
        let words: Vec<PointerWord> = words.iter().map(|&(at, value)| PointerWord { at, value }).collect();
        assert_eq!(leak_kinds(&blocks, &words, roots.iter().copied()), expect, "{words:?} {roots:?}");
    }

    #[test]
    fn chains_circles_and_middles() {
        check(2, &[], &[], &[Definite, Definite]);
        check(3, &[(0x108, 0x200), (0x210, 0x300)], &[0x100], &[Reachable; 3]);
        check(3, &[(0x108, 0x200), (0x210, 0x300)], &[], &[Definite, Indirect, Indirect]);
        check(3, &[(0x108, 0x200), (0x308, 0x100)], &[], &[Indirect, Indirect, Definite]);
        check(2, &[(0x100, 0x200), (0x200, 0x100)], &[], &[Definite, Indirect]);
        check(2, &[(0x100, 0x208)], &[0x100], &[Reachable, Possible]);
        check(2, &[(0x100, 0x200)], &[0x110], &[Possible, Possible]);
        check(2, &[(0x100, 0x200)], &[0x110, 0x100], &[Reachable, Reachable]);
        check(1, &[(0x100, 0x100)], &[0x120, 0xff], &[Definite]);
    }

    #[test]
    fn what_a_library_keeps_by_its_middle_is_reachable() {
        use InnerPointers::{All, At, None};
        check_kept(&[All, None], &[(0x108, 0x200)], &[0x118], &[Reachable; 2]);
        check_kept(&[At(16), At(16)], &[], &[0x110, 0x208], &[Reachable, Possible]);
        check_kept(&[All], &[], &[0x120], &[Definite]);
    }
}
