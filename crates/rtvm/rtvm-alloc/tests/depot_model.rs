//! Every interleaving of threads that leave and take magazines: none is lost, none is taken
//! twice, and what was written before a magazine was left is visible when it is taken.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p rtvm-alloc --test depot_model --release`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use rtvm_alloc::Shelf;

/// Magazines are numbers from 1; their contents a cell that only the owner may touch.
struct World {
    shelf: Shelf,
    contents: Vec<UnsafeCell<u32>>,
}

impl World {
    fn new(magazines: usize) -> Arc<Self> {
        let contents = (0..magazines).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Self { shelf: Shelf::new(), contents })
    }

    /// The owner changes a magazine: loom fails where two threads own it, or where the earlier change is not seen.
    fn own(&self, magazine: usize) {
        self.contents[magazine - 1].with_mut(|contents| unsafe { *contents += 1 });
    }

    fn leave(&self, magazine: usize) -> bool {
        self.own(magazine);
        self.shelf.leave(magazine)
    }

    fn take(&self) -> Option<usize> {
        let magazine = self.shelf.take()?;
        self.own(magazine);
        Some(magazine)
    }

    /// All that lie on the shelf in the end, with those that threads kept, are all there are, once each.
    fn check(&self, mut kept: Vec<usize>) {
        while let Some(magazine) = self.take() {
            kept.push(magazine);
        }
        kept.sort_unstable();
        assert_eq!(kept, (1..=self.contents.len()).collect::<Vec<_>>());
    }
}

#[test]
fn what_two_leave_and_two_take_is_owned_once() {
    loom::model(|| {
        let world = World::new(2);
        let threads: Vec<_> = (1..=2)
            .map(|magazine| {
                let world = world.clone();
                thread::spawn(move || {
                    let mut kept = Vec::new();
                    if !world.leave(magazine) {
                        kept.push(magazine);
                    }
                    kept.extend(world.take());
                    kept
                })
            })
            .collect();
        let mut kept: Vec<usize> = world.take().into_iter().collect();
        for thread in threads {
            kept.extend(thread.join().unwrap());
        }
        world.check(kept);
    });
}

#[test]
fn a_full_shelf_keeps_what_it_has() {
    loom::model(|| {
        let world = World::new(3);
        let mut kept: Vec<usize> = (1..=2).filter(|magazine| !world.leave(*magazine)).collect();
        let other = world.clone();
        let thread = thread::spawn(move || if other.leave(3) { None } else { Some(3) });
        kept.extend(world.take());
        kept.extend(thread.join().unwrap());
        world.check(kept);
    });
}
