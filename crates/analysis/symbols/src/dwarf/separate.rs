//! Separate debug files: by build id, and by the link in `.gnu_debuglink`.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use crate::{
    SearchPath,
    elf::{ElfFacts, ElfSource, ReadBuildId},
    search_path,
};

/// The debug file of a file, if there is one and it belongs to this build.
pub(crate) fn separate_file(path: &Path, facts: &ElfFacts, search: &SearchPath) -> Option<PathBuf> {
    by_build_id(facts, search).or_else(|| by_link(path, facts, search))
}

fn by_build_id(facts: &ElfFacts, search: &SearchPath) -> Option<PathBuf> {
    let id = facts.build_id.as_ref()?;
    let place = |root: &PathBuf| search_path::by_build_id(root, id).map(search_path::debug_file);
    search.debug_files().filter_map(place).find(|path| is_same_build(path, facts))
}

fn by_link(path: &Path, facts: &ElfFacts, search: &SearchPath) -> Option<PathBuf> {
    let (name, crc) = facts.debug_link.as_ref()?;
    let directory = path.parent()?;
    let below = directory.strip_prefix("/").unwrap_or(directory);
    let near = [directory.join(name), directory.join(".debug").join(name)];
    let candidates = near.into_iter().chain(search.debug_files().map(|root| root.join(below).join(name)));
    candidates.filter(|candidate| candidate != path).find(|candidate| {
        if facts.build_id.is_some() {
            is_same_build(candidate, facts)
        } else {
            crc_of(candidate) == Some(*crc)
        }
    })
}

fn is_same_build(path: &Path, facts: &ElfFacts) -> bool {
    let source = ElfSource::Path(path.to_owned());
    path.is_file() && source.with(path, ReadBuildId).is_ok_and(|id| id == facts.build_id)
}

fn crc_of(path: &Path) -> Option<u32> {
    let mut file = BufReader::new(File::open(path).ok().filter(|_| path.is_file())?);
    let mut crc = Crc::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(crc.finish()),
            read => crc.add(buffer.get(..read)?),
        }
    }
}

/// CRC-32 as in gzip, which `.gnu_debuglink` uses.
struct Crc {
    table: [u32; 256],
    state: u32,
}

impl Crc {
    fn new() -> Self {
        let byte = |byte: usize| (0..8).fold(byte as u32, |crc, _| crc >> 1 ^ (0xedb8_8320 * (crc & 1)));
        Self { table: std::array::from_fn(byte), state: !0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let entry = self.table.get((self.state as u8 ^ byte) as usize).copied().unwrap_or(0);
            self.state = self.state >> 8 ^ entry;
        }
    }

    fn finish(self) -> u32 {
        !self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_of_the_check_string() {
        let mut crc = Crc::new();
        crc.add(b"12345");
        crc.add(b"6789");
        assert_eq!(crc.finish(), 0xcbf4_3926);
    }
}
