//! `libmemtap_probes.so`: what `memtap probe` puts into a program with `LD_PRELOAD`.
//!
//! It starts the profiler before `main` when the environment asks for it, writes the profile at the end, and defines the
//! symbols that must be seen by the program: the two functions of `-finstrument-functions`, and those around which the
//! real return addresses have to be on the stack because something unwinds it. All else is in the crate `probes`.

mod attached;
mod hooks;
mod lifetime;
mod masks;
mod next;
mod unwind;
