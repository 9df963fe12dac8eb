// What an Option holds is compared where there may be nothing in it: compilers compare both words, and only then look at the result.
// command: errors
// expect: nothing
use std::hint::black_box;

struct Slot {
    owner: Option<(u32, u64)>,
    uses: u64,
}

#[inline(never)]
fn is_owned(slot: &Slot, owner: u32) -> bool {
    matches!(slot.owner, Some((of, _)) if of == owner)
}

fn main() {
    let mut slots: Vec<Box<Slot>> = (0..100).map(|uses| Box::new(Slot { owner: None, uses })).collect();
    for number in (0..100).step_by(3) {
        slots[number].owner = Some((number as u32 % 5, 1));
    }
    black_box(&mut slots);
    let asks: fn(&Slot, u32) -> bool = black_box(is_owned);
    let owned = slots.iter().filter(|slot| asks(slot, 2)).count();
    println!("{owned} {}", slots.iter().map(|slot| slot.uses).sum::<u64>());
}
