//! What the allocating code tells about a heap block, and the name that people see for it: `Particle[1000] at game.cpp:17`.

use std::sync::Arc;

use memref::{AllocationKind, VirtAddr};
use symbols::{BlockState, CodeId, Resolver};

use crate::typing::{AllocationWay, CodeTypes};

/// What the code that allocated a heap block says of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MadeBlock {
    /// The call that allocated it.
    pub kind: AllocationKind,
    /// What it was allocated for.
    pub objects: Option<MadeObjects>,
    /// Whether it was allocated when it was accessed.
    pub state: BlockState,
}

/// The objects that a block was allocated for: the compiler's word, not a guess from accesses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MadeObjects {
    /// The type of one.
    pub type_: Arc<str>,
    /// How many there is room for, if it is an array.
    pub array: Option<u64>,
}

impl MadeObjects {
    /// `Particle`, `Particle[1000]`.
    pub fn name(&self) -> String {
        match self.array {
            None => self.type_.to_string(),
            Some(count) => format!("{}[{count}]", self.type_),
        }
    }

    /// The name that blocks of several sizes have together.
    fn family(&self) -> String {
        let array = if self.array.is_some() { "[]" } else { "" };
        format!("{}{array}", self.type_)
    }

    /// What a block of `bytes` was allocated for by the call at `ip`. A function that was made for one type says it, as those of C++'s and
    /// Rust's libraries are; else the pointer that takes the result does, for a block of just that size.
    pub(super) fn of(
        types: &mut CodeTypes,
        resolver: &Resolver,
        ip: VirtAddr,
        code: CodeId,
        bytes: u64,
    ) -> Option<Self> {
        if let Some(found) = types.allocated(resolver, code) {
            let layout = types.layout(found.type_);
            let array = match found.way {
                AllocationWay::One => None,
                AllocationWay::Several => Some(bytes.checked_div(layout.bytes)?),
                // Its entries have no fixed number that a block's size tells.
                AllocationWay::Table => return None,
            };
            let objects = Self { type_: Arc::clone(&layout.name), array: array.filter(|count| *count > 1) };
            return found.fits(bytes, layout.bytes).then_some(objects);
        }
        match types.results(resolver, ip, code).as_slice() {
            [only] if types.layout(*only).bytes == bytes && bytes > 1 => {
                Some(Self { type_: Arc::clone(&types.layout(*only).name), array: None })
            }
            _ => None,
        }
    }
}

impl MadeBlock {
    /// How people call the block, and how it is called together with the others of its call. `line` is that of the call.
    pub(super) fn words(&self, line: &str) -> [String; 2] {
        let state = match self.state {
            BlockState::Live => "",
            BlockState::Freed => "released ",
            BlockState::Unmapped => "unmapped ",
        };
        let file = line.rsplit_once('/').map_or(line, |(_, file)| file);
        let of = |what: &dyn Fn(&MadeObjects) -> String| {
            let what = self.objects.as_ref().map_or_else(|| self.kind.to_string(), what);
            format!("{state}{what} at {file}")
        };
        [of(&MadeObjects::name), of(&MadeObjects::family)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_call_a_block_by_its_type_and_line() {
        let check = |objects: Option<(&str, Option<u64>)>, state, expect: [&str; 2]| {
            let objects = objects.map(|(type_, array)| MadeObjects { type_: type_.into(), array });
            let made = MadeBlock { kind: AllocationKind::Malloc, objects, state };
            assert_eq!(made.words("/src/game.cpp:17"), expect);
        };
        check(None, BlockState::Live, ["malloc at game.cpp:17"; 2]);
        check(Some(("Item", None)), BlockState::Live, ["Item at game.cpp:17"; 2]);
        let array = Some(("Particle", Some(1000)));
        check(array, BlockState::Live, ["Particle[1000] at game.cpp:17", "Particle[] at game.cpp:17"]);
        check(Some(("Item", None)), BlockState::Freed, ["released Item at game.cpp:17"; 2]);
    }
}
