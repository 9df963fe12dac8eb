//! Instruction bytes, read from the files that a process mapped.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use memref::VirtAddr;
use symbols::Resolver;
use x86::{Instruction, MAX_INSTRUCTION_BYTES};

/// The files that were opened; `None`: can't be.
#[derive(Debug, Default)]
pub(crate) struct CodeFiles {
    files: HashMap<PathBuf, Option<File>>,
}

impl CodeFiles {
    /// The instruction at an address of code; `None` where there is no file, or none in it.
    pub(crate) fn instruction(&mut self, resolver: &Resolver, ip: VirtAddr) -> Option<Instruction> {
        let mut buffer = [0; MAX_INSTRUCTION_BYTES];
        Instruction::decode(self.at(resolver, ip, &mut buffer)?, ip.0)
    }

    /// The bytes at an address of code, fewer where the mapped part of the file ends; `None` where there is no file.
    pub(crate) fn at<'a>(
        &mut self,
        resolver: &Resolver,
        ip: VirtAddr,
        into: &'a mut [u8; MAX_INSTRUCTION_BYTES],
    ) -> Option<&'a [u8]> {
        let (_, instance) = resolver.image().instance_at(ip)?;
        let place = instance.module.file_place(instance.linked(ip))?;
        let len = place.bytes.min(into.len() as u64) as usize;
        let path = instance.module.path();
        let file = match self.files.get(path) {
            Some(file) => file,
            None => self.files.entry(path.to_owned()).or_insert(File::open(path).ok()),
        };
        let bytes = into.get_mut(..len)?;
        file.as_ref()?.read_exact_at(bytes, place.offset).ok()?;
        Some(bytes)
    }
}
