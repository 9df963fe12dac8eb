//! Debug information (DWARF 4 and 5), read when it is first asked for.

mod separate;

use std::{path::Path, sync::Arc};

pub(crate) use separate::separate_file;

use crate::{Error, LineFrame, TypeLayout, elf::Source};

#[derive(Debug)]
pub(crate) struct DebugInfo {
    variables: Variables,
}
#[derive(Debug)]
pub(crate) struct Variables;
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypeRef(pub(crate) usize);
#[derive(Debug)]
pub(crate) struct StaticVariable {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) name: String,
    pub(crate) type_ref: Option<TypeRef>,
}

impl Variables {
    pub(crate) fn find(&self, _: u64) -> (u64, u64, Option<&StaticVariable>) {
        (0, u64::MAX, None)
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = &StaticVariable> {
        std::iter::empty()
    }
}
impl DebugInfo {
    pub(crate) fn load(_: &Source, _: &Path) -> Result<Self, Error> {
        Ok(Self { variables: Variables })
    }
    pub(crate) fn frames(&self, _: u64) -> Vec<LineFrame> {
        Vec::new()
    }
    pub(crate) fn variables(&self) -> &Variables {
        &self.variables
    }
    pub(crate) fn layout(&self, _: TypeRef) -> Option<Arc<TypeLayout>> {
        None
    }
    pub(crate) fn type_named(&self, _: &str) -> Option<Arc<TypeLayout>> {
        None
    }
}
