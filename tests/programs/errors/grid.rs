// As errors/grid.c, with Rust's boxes and vectors.
use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;
use std::rc::Rc;

const ALL_BYTES: usize = 40;

fn load<T>(from: *const T, offset: usize) {
    black_box(unsafe { from.cast::<u8>().wrapping_add(offset).read_volatile() });
}

macro_rules! cases {
    ($module:ident, $type:ty) => {
        mod $module {
            use super::*;
            const COUNT: usize = ALL_BYTES / size_of::<$type>();

            fn made() -> Vec<$type> {
                black_box(vec![1 as $type; COUNT])
            }

            #[inline(never)]
            pub fn load_past(wrong: bool) {
                load(made().as_ptr(), ALL_BYTES - 1 + usize::from(wrong));
            }

            #[inline(never)]
            pub fn load_before(wrong: bool) {
                load(made().as_ptr().wrapping_byte_sub(usize::from(wrong)), 0);
            }

            #[inline(never)]
            pub fn load_after_drop(wrong: bool) {
                let all = made();
                let from = all.as_ptr();
                let all = if wrong { drop(all); None } else { Some(all) };
                load(from, ALL_BYTES - 3);
                drop(all);
            }

            #[inline(never)]
            pub fn load_after_growing(wrong: bool) {
                let mut all = made();
                let from = all.as_ptr();
                // So that it can't grow where it is.
                let wall = made();
                if wrong {
                    all.reserve_exact(100 * COUNT);
                    black_box(&mut all).push(2 as $type);
                }
                load(from, ALL_BYTES - 3);
                drop((all, wall));
            }

            #[inline(never)]
            pub fn store_after_dealloc(wrong: bool) {
                let layout = Layout::array::<$type>(COUNT).expect("a layout");
                unsafe {
                    let block = black_box(alloc(layout));
                    block.write_volatile(1);
                    if wrong {
                        dealloc(block, layout);
                    }
                    block.add(ALL_BYTES - 1).write_volatile(1);
                    if !wrong {
                        dealloc(block, layout);
                    }
                }
            }

            #[inline(never)]
            pub fn forgotten(wrong: bool) {
                let all = made();
                load(all.as_ptr(), 0);
                if wrong {
                    std::mem::forget(all);
                }
            }

            #[inline(never)]
            pub fn value_of_the_last_rc(wrong: bool) {
                let one = Rc::new([1 as $type; COUNT]);
                let from = Rc::as_ptr(&black_box(one.clone()));
                let one = if wrong { drop(one); None } else { Some(one) };
                load(from, ALL_BYTES - 3);
                drop(one);
            }
        }
    };
}

cases!(of_u8, u8);
cases!(of_u16, u16);
cases!(of_u32, u32);
cases!(of_u64, u64);
cases!(of_f64, f64);

fn main() {
    type Case = (&'static str, &'static str, fn(bool));
    macro_rules! all {
        ($module:ident) => {
            [
                (concat!(stringify!($module), "::load_past"), "out_of_bounds", $module::load_past as fn(bool)),
                (concat!(stringify!($module), "::load_before"), "out_of_bounds", $module::load_before),
                (concat!(stringify!($module), "::load_after_drop"), "use_after_free", $module::load_after_drop),
                (concat!(stringify!($module), "::load_after_growing"), "use_after_free", $module::load_after_growing),
                (concat!(stringify!($module), "::store_after_dealloc"), "use_after_free", $module::store_after_dealloc),
                (concat!(stringify!($module), "::forgotten"), "leak", $module::forgotten),
                (concat!(stringify!($module), "::value_of_the_last_rc"), "use_after_free", $module::value_of_the_last_rc),
            ]
        };
    }
    let cases: [[Case; 7]; 5] = [all!(of_u8), all!(of_u16), all!(of_u32), all!(of_u64), all!(of_f64)];
    let how = std::env::args().nth(1);
    for (name, kind, run) in cases.into_iter().flatten() {
        match &how {
            None => println!("{name} {kind}"),
            Some(how) => run(how == "wrong"),
        }
    }
}
