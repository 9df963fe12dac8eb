//! Source files and lines of functions, from the modules' debug information.

use object::{Object, ObjectSection};
use std::{collections::HashMap, rc::Rc};

type DwarfReader = gimli::EndianRcSlice<gimli::RunTimeEndian>;

/// The debug information of the modules asked for so far.
#[derive(Default)]
pub struct Sources {
    modules: HashMap<String, Option<addr2line::Context<DwarfReader>>>,
}

impl Sources {
    /// File and line of the function at `offset` of the module with this file; `None` where nothing says.
    pub fn find(&mut self, module: &str, offset: u64) -> Option<(String, u32)> {
        let context = self.modules.entry(module.to_owned()).or_insert_with(|| load(module)).as_ref()?;
        let location = context.find_location(offset).ok()??;
        Some((location.file?.to_owned(), location.line?))
    }
}

fn load(path: &str) -> Option<addr2line::Context<DwarfReader>> {
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let section = |id: gimli::SectionId| -> Result<DwarfReader, gimli::Error> {
        let data =
            file.section_by_name(id.name()).and_then(|s| s.uncompressed_data().ok()).unwrap_or_default();
        Ok(DwarfReader::new(Rc::from(&*data), gimli::RunTimeEndian::Little))
    };
    addr2line::Context::from_dwarf(gimli::Dwarf::load(section).ok()?).ok()
}
