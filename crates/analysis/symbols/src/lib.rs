//! Names for the addresses of a traced program (MadT, sections II-B, III-E and III-F).
//!
//! An address becomes a function and source line, a variable and its field, a heap block or a region.
//! This happens when a trace is read, never in the traced process: the trace holds addresses, the
//! order of mappings and allocations, and the build ids of the files; this crate reads those files.
//!
//! Start with [`Resolver`]: one process at one point of its run. It consists of a [`ProcessImage`] (which file is mapped
//! where), a [`HeapMap`] (which allocation owns which byte) and [`Names`] (numbers for names, shared by all resolvers of
//! a session). [`Module`] is one ELF file, and can be used alone, for example to find the address of a function by name.
//!
//! Deliberately not supported: split DWARF and `.gnu_debugaltlink`, type units, names of thread-local variables
//! by address (their place differs by thread), and local variables whose place changes within their function.
#![forbid(unsafe_code)]

mod archive;
mod build_id;
mod cache;
mod demangle;
mod dwarf;
mod elf;
mod error;
mod heap;
mod image;
mod layout;
mod module;
mod names;
mod resolver;
mod search;
mod search_path;
mod source_line;
mod store;

pub use ::elf::LinkAddr;
pub use archive::{ArchivedModule, archive};
pub use build_id::BuildId;
pub use cache::DataVersion;
pub use dwarf::{
    AllocatedType, AllocatingCode, CfaRule, DebugType, FoundLocal, LocalId, LocalVariable, TypedFunction,
    TypedVariable, VariablePlace,
};
pub use elf::{FilePlace, Section, SectionKind, Segment, Symbol, SymbolKind};
pub use error::Error;
pub use heap::{AllocationSite, BlockHit, BlockId, BlockState, HeapBlock, HeapChange, HeapMap, SiteId};
pub use image::{Instance, InstanceId, ProcessImage, Region, RegionId, RegionMap};
pub use layout::{BitField, Member, TypeKind, TypeLayout};
pub use module::{DataObject, Module};
pub use names::{Call, CodeId, CodeName, FunctionId, Names, Variable, VariableId, VariableKind};
pub use resolver::{DataName, Resolver};
pub use search::{Place, PlacedVariable};
pub use search_path::SearchPath;
pub use source_line::{LineFrame, SourceLine};
pub use store::ModuleStore;
