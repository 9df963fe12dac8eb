//! The corpus: small programs with one error or none, and the findings of error detection tools on them.
//!
//! A case is one source file in `crates/memtap/e2e/corpus/KIND/`. Its head states the truth, whatever a
//! tool says ([`CaseHead`]). This crate builds cases ([`CaseBuild`]), runs memtap, Valgrind and the
//! compilers' sanitizers on them, and compares their answers with the heads ([`Judgement`]). It does not
//! link any part of memtap and uses only the command line and the JSON output. Start with [`CorpusCase`].
#![forbid(unsafe_code)]

mod build;
mod case;
mod error;
mod head;
mod judgement;
mod memtap;
mod others;
mod parallel;
mod process;

pub use build::CaseBuild;
pub use case::CorpusCase;
pub use error::CorpusError;
pub use head::{CaseHead, CaseQuestion, ExpectedFinding, KnownFault};
pub use judgement::{Judgement, Reported};
pub use memtap::judge_by_memtap;
pub use others::{judge_by_sanitizer, judge_by_valgrind};
pub use parallel::in_parallel;
