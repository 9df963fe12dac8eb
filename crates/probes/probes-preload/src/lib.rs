//! `libmemtap_probes.so`: the library that `memtap probe` loads into a program with `LD_PRELOAD`.
//!
//! It starts the profiler before `main` if the environment asks for it, writes the profile at the end, and
//! defines the symbols that the program must see: the two functions of `-finstrument-functions`, and functions
//! that unwind the stack and so need the real return addresses on it. Everything else is in the crate `probes`.

mod attached;
mod hooks;
mod lifetime;
mod masks;
mod next;
mod unwind;
