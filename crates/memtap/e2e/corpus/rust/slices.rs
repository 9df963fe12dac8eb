// Slices that are split, swapped, rotated, copied and searched to their ends.
// command: errors
// record: --data
// expect: nothing
use std::hint::black_box;

fn main() {
    let mut bytes: Vec<u8> = (0..=255).collect();
    for len in [0, 1, 7, 16, 31, 64, 255] {
        let part = black_box(&mut bytes[..len]);
        part.reverse();
        part.rotate_left(len / 3);
        let (left, right) = part.split_at_mut(len / 2);
        left.swap_with_slice(&mut right[..len / 2]);
        black_box(left.iter().position(|byte| *byte == 77));
        let copy = part.to_vec();
        assert!(copy == part && copy.contains(&part[len / 2..].first().copied().unwrap_or(0)) == (len > 0));
    }
    let text = String::from_utf8_lossy(&bytes[..100]).into_owned();
    black_box(text.find("xyz"));
    black_box(bytes.chunks_exact(9).map(|chunk| chunk[8] as u32).sum::<u32>());
}
