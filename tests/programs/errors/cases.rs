// One error a run, as errors/cases.c.
use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;

struct Pair {
    first: u64,
    second: u64,
}

struct Ring {
    next: RefCell<Option<Rc<Ring>>>,
    value: u64,
}

fn load<T: Copy>(from: *const T) -> T {
    unsafe { from.read_volatile() }
}

#[inline(never)]
fn box_after_drop(wrong: bool) {
    let one = Box::new(Pair { first: 1, second: 2 });
    let raw: *const Pair = &*one;
    let one = if wrong { drop(one); None } else { Some(one) };
    black_box(load(unsafe { &raw const (*raw).second }));
    drop(one);
}

#[inline(never)]
fn element_of_a_vector_that_grew(wrong: bool) {
    let mut all: Vec<u64> = vec![7; 5];
    let third = &raw const all[2];
    if wrong {
        all.reserve_exact(100);
        all.push(8);
    }
    black_box(load(third));
    black_box(&all);
}

#[inline(never)]
fn text_that_is_gone(wrong: bool) {
    let kept = "y".repeat(50);
    let text = {
        let lost = "x".repeat(50);
        if wrong { lost.as_ptr() } else { kept.as_ptr() }
    };
    black_box(load(unsafe { text.add(20) }));
}

#[inline(never)]
fn value_of_the_last_rc(wrong: bool) {
    let one = Rc::new(Pair { first: 1, second: 2 });
    let two = Rc::clone(&one);
    let raw = Rc::as_ptr(&one);
    drop(one);
    let two = if wrong { drop(two); None } else { Some(two) };
    black_box(load(unsafe { &raw const (*raw).second }));
    drop(two);
}

#[inline(never)]
fn dropped_twice(wrong: bool) {
    let raw = Box::into_raw(Box::new(Pair { first: 1, second: 2 }));
    unsafe {
        drop(Box::from_raw(raw));
        if wrong {
            drop(Box::from_raw(black_box(raw)));
        }
    }
}

#[inline(never)]
fn store_after_dealloc(wrong: bool) {
    let layout = Layout::from_size_align(40, 8).expect("a layout");
    unsafe {
        let block = alloc(layout);
        block.write_volatile(1);
        if wrong {
            dealloc(block, layout);
        }
        block.add(24).write_volatile(1);
        if !wrong {
            dealloc(block, layout);
        }
    }
}

#[inline(never)]
fn unchecked_past_the_end(wrong: bool) {
    let all: Vec<u64> = vec![7; 5];
    black_box(load(unsafe { all.as_ptr().add(4 + usize::from(wrong)) }));
}

#[inline(never)]
fn unchecked_before_the_start(wrong: bool) {
    let all: Vec<u64> = vec![7; 5];
    black_box(load(unsafe { all.as_ptr().sub(usize::from(wrong)) }));
}

#[inline(never)]
fn past_a_box(wrong: bool) {
    let one = Box::new([3u64; 3]);
    black_box(load(unsafe { one.as_ptr().add(2 + usize::from(wrong)) }));
}

#[inline(never)]
fn length_without_elements(wrong: bool) {
    let mut all: Vec<u32> = Vec::with_capacity(10);
    all.push(1);
    if !wrong {
        all.extend([2; 9]);
    }
    unsafe { all.set_len(10) };
    if all[9] == 77 {
        black_box(&all);
    }
}

#[inline(never)]
fn forgotten_box(wrong: bool) {
    let one = Box::new(Pair { first: 1, second: 2 });
    black_box(&*one);
    if wrong {
        std::mem::forget(one);
    }
}

#[inline(never)]
fn leaked_vector(wrong: bool) {
    let all: Vec<u64> = vec![7; 9];
    black_box(all[3]);
    if wrong {
        all.leak();
    }
}

#[inline(never)]
fn cycle_of_rc(wrong: bool) {
    let one = Rc::new(Ring { next: RefCell::new(None), value: 5 });
    *one.next.borrow_mut() = Some(Rc::clone(&one));
    black_box(one.value);
    if !wrong {
        one.next.borrow_mut().take();
    }
}

#[inline(never)]
fn raw_box_never_dropped(wrong: bool) {
    let raw = Box::into_raw(Box::new(Pair { first: 1, second: 2 }));
    black_box(load(unsafe { &raw const (*raw).first }));
    if !wrong {
        drop(unsafe { Box::from_raw(raw) });
    }
}

#[inline(never)]
fn capacity_never_used(wrong: bool) {
    let mut all: Vec<u8> = Vec::with_capacity(1000);
    if !wrong {
        all.push(1);
    }
    black_box(&all);
}

fn main() {
    let cases: [(&str, &str, fn(bool)); 15] = [
        ("box_after_drop", "use_after_free", box_after_drop),
        ("element_of_a_vector_that_grew", "use_after_free", element_of_a_vector_that_grew),
        ("text_that_is_gone", "use_after_free", text_that_is_gone),
        ("value_of_the_last_rc", "use_after_free", value_of_the_last_rc),
        ("store_after_dealloc", "use_after_free", store_after_dealloc),
        ("dropped_twice", "invalid_free", dropped_twice),
        ("unchecked_past_the_end", "out_of_bounds", unchecked_past_the_end),
        ("unchecked_before_the_start", "out_of_bounds", unchecked_before_the_start),
        ("past_a_box", "out_of_bounds", past_a_box),
        ("length_without_elements", "uninitialised", length_without_elements),
        ("forgotten_box", "leak", forgotten_box),
        ("leaked_vector", "leak", leaked_vector),
        ("cycle_of_rc", "leak", cycle_of_rc),
        ("raw_box_never_dropped", "leak", raw_box_never_dropped),
        ("capacity_never_used", "unused", capacity_never_used),
    ];
    let args: Vec<String> = std::env::args().skip(1).collect();
    for (name, kind, run) in cases {
        match args.first() {
            None => println!("{name} {kind}"),
            Some(asked) if asked == name => run(args.len() == 1),
            _ => {}
        }
    }
}
