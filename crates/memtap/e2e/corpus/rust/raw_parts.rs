// A vector is taken apart into its pointer, length and capacity, and put together again.
// command: errors
// record: --data
// expect: nothing
use std::hint::black_box;
use std::mem::ManuallyDrop;

fn main() {
    let mut numbers = ManuallyDrop::new(vec![3u64; 20]);
    let (at, len, capacity) = (black_box(numbers.as_mut_ptr()), numbers.len(), numbers.capacity());
    for i in 0..len {
        unsafe { at.add(i).write(i as u64) };
    }
    let numbers = unsafe { Vec::from_raw_parts(at, len, capacity) };
    black_box(numbers);
}
