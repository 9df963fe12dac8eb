// Memory by std::alloc, grown and released with the right layouts.
// command: errors
// record: --data
// expect: nothing
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;

fn main() {
    for bytes in [1usize, 24, 100, 5000] {
        let layout = Layout::from_size_align(bytes, 16).unwrap();
        unsafe {
            let block = black_box(alloc(layout));
            block.write_bytes(1, bytes);
            let block = black_box(realloc(block, layout, 2 * bytes));
            block.add(2 * bytes - 1).write(1);
            dealloc(block, Layout::from_size_align(2 * bytes, 16).unwrap());
            let wide = Layout::from_size_align(bytes, 256).unwrap();
            let block = black_box(alloc_zeroed(wide));
            assert_eq!(block.add(bytes - 1).read(), 0);
            dealloc(block, wide);
        }
    }
}
