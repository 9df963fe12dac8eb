// Two counted pointers own each other.
// command: errors
// record: --data
// expect: leak definite
// expect: leak indirect
use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

#[derive(Default)]
struct Partner {
    other: RefCell<Option<Rc<Partner>>>,
    values: [u64; 9],
}

#[inline(never)]
fn make() {
    let (a, b) = (Rc::new(Partner::default()), Rc::new(Partner::default()));
    *a.other.borrow_mut() = Some(b.clone());
    *b.other.borrow_mut() = Some(a.clone());
    black_box((&a, &b));
}

#[inline(never)]
fn clear_stack() {
    black_box([0u64; 300]);
}

fn main() {
    make();
    clear_stack();
}
