//! The number of a stack of functions.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A number for a stack of functions: a hash of their names, outermost first. Equal stacks have equal numbers in every trace and in every
/// version of memtap; of a million stacks, two different ones have the same number in one case of forty million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackNumber(pub u64);

impl StackNumber {
    /// That of no function.
    pub const BEGIN: Self = Self(0);

    /// That of the functions of a stack, outermost first.
    pub fn of<'a>(functions: impl IntoIterator<Item = &'a str>) -> Self {
        functions.into_iter().fold(Self::BEGIN, Self::callee)
    }

    /// That of a function which this stack calls.
    pub fn callee(self, function: &str) -> Self {
        Self(xxh3_64_with_seed(function.as_bytes(), self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_depends_on_all_functions_and_on_their_order() {
        let check = |functions: &[&str], others: &[&[&str]]| {
            let number = StackNumber::of(functions.iter().copied());
            assert_eq!(number, StackNumber::of(functions.iter().copied()));
            for other in others {
                assert_ne!(number, StackNumber::of(other.iter().copied()), "{functions:?} {other:?}");
            }
        };
        check(
            &["main", "walk"],
            &[&["walk", "main"], &["main"], &["mainwalk"], &["main", "walk", "walk"], &[]],
        );
        check(&["main"], &[&["main", ""], &["mai", "n"]]);
    }
}
