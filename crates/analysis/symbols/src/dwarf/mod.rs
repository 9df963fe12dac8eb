//! Debug information (DWARF 4 and 5), read on first use.
//!
//! [`DebugInfo`] holds the sections and caches what is read from them: [`lines`]
//! and [`locals`] by unit, [`statics`] all at once, [`types`] one by one.
#![allow(non_upper_case_globals, reason = "the constants are DWARF's own names")]

mod allocating;
mod die;
mod frame_rows;
mod lines;
mod locals;
mod sections;
mod separate;
mod shapes;
mod statics;
mod typed;
mod types;

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use elf::LinkAddr;
pub(crate) use separate::separate_file;

pub(crate) use self::die::TypeRef;
pub use self::frame_rows::CfaRule;
pub use self::locals::{FoundLocal, LocalId, LocalVariable};
pub(crate) use self::statics::Missing;
pub use self::typed::{
    AllocatedType, AllocatingCode, DebugType, TypedFunction, TypedVariable, VariablePlace,
};
use self::{
    lines::Lines, locals::Locals, sections::Sections, shapes::TypeShapes, statics::Statics,
    typed::TypedFunctions, types::Types,
};
use crate::{Error, LineFrame, TypeLayout, elf::ElfSource};

/// The debug information of one module.
#[derive(Debug)]
pub(crate) struct DebugInfo {
    sections: Sections,
    lines: OnceLock<Option<Lines>>,
    statics: OnceLock<Statics>,
    types: Types,
    locals: Locals,
    typed: TypedFunctions,
    shapes: TypeShapes,
}

impl DebugInfo {
    /// Reads the sections, and nothing from them.
    pub(crate) fn load(source: &ElfSource, path: &Path) -> Result<Self, Error> {
        let sections = Sections::load(source, path)?;
        let (lines, statics) = (OnceLock::new(), OnceLock::new());
        Ok(Self {
            sections,
            lines,
            statics,
            types: Types::default(),
            locals: Locals::default(),
            typed: TypedFunctions::default(),
            shapes: TypeShapes::default(),
        })
    }

    /// The first damage that was met so far.
    pub(crate) fn damage(&self) -> Option<&Arc<Error>> {
        self.sections.damage()
    }

    /// The functions and lines at an address, innermost first.
    pub(crate) fn frames(&self, address: LinkAddr) -> Vec<LineFrame> {
        let lines = self.lines.get_or_init(|| Lines::new(&self.sections));
        lines.as_ref().map(|lines| lines.frames(&self.sections, address)).unwrap_or_default()
    }

    /// The variables at fixed addresses.
    pub(crate) fn variables(&self) -> &Statics {
        self.statics.get_or_init(|| Statics::read(&self.sections))
    }

    /// The local variables of the function at `address` that lie there in its frame, each at its time.
    pub(crate) fn locals_at(&self, address: LinkAddr, offset: i64) -> Vec<FoundLocal> {
        self.locals.at(&self.sections, address, offset)
    }

    /// What tells the canonical frame address at an instruction.
    pub(crate) fn cfa_rule(&self, address: LinkAddr) -> Option<CfaRule> {
        self.sections.frame_rows.cfa_rule(address)
    }

    /// One of them.
    pub(crate) fn local(&self, address: LinkAddr, id: LocalId) -> Option<Arc<LocalVariable>> {
        self.locals.get(&self.sections, address, id)
    }

    /// Why no variable of that name is at a fixed address, where there is one in the source.
    pub(crate) fn missing(&self, name: &str) -> Option<Missing> {
        statics::missing(&self.sections, name)
    }

    /// What a type consists of.
    pub(crate) fn layout(&self, type_ref: TypeRef) -> Option<Arc<TypeLayout>> {
        self.types.layout(&self.sections, type_ref)
    }

    /// A type by its name.
    pub(crate) fn type_named(&self, name: &str) -> Option<Arc<TypeLayout>> {
        self.types.named(&self.sections, name)
    }

    /// What is known of the values in the function that begins there.
    pub(crate) fn typed_function(&self, address: LinkAddr) -> Option<Arc<TypedFunction>> {
        self.typed.find(&self.sections, address)
    }

    /// What a pointer of that type points to.
    pub(crate) fn pointee(&self, type_: DebugType) -> Option<DebugType> {
        self.shapes.pointee(&self.sections, &self.types, type_.0).map(DebugType)
    }

    /// What a value of a type that stands in a register points to.
    pub(crate) fn held_pointee(&self, type_: DebugType) -> Option<DebugType> {
        self.shapes.held_pointee(&self.sections, &self.types, type_.0).map(DebugType)
    }

    /// The complete type of a name.
    pub(crate) fn type_at_name(&self, name: &str) -> Option<DebugType> {
        self.types.place_of(&self.sections, name).map(DebugType)
    }

    /// The innermost type at an offset of a type.
    pub(crate) fn part(&self, type_: DebugType, offset: u64) -> Option<DebugType> {
        self.shapes.part(&self.sections, &self.types, type_.0, offset).map(DebugType)
    }
}
