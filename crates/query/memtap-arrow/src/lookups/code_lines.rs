//! The source line of an instruction, whenever it ran and in whichever process.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use analysis::Session;
use memref::VirtAddr;
use symbols::Instance;

use super::agreed;
use crate::Error;
use crate::named_blocks::instances;

/// As tables write a source line: `file:line`, the file alone where the line is not known.
pub(super) fn line_text(file: &str, line: Option<u32>) -> Arc<str> {
    line.map_or_else(|| file.into(), |line| format!("{file}:{line}").into())
}

/// All code that any process ever mapped.
#[derive(Debug)]
pub(super) struct CodeLines {
    /// Each file at each of its places once.
    mapped: Vec<Instance>,
    known: Mutex<HashMap<VirtAddr, Option<Arc<str>>>>,
}

impl CodeLines {
    pub(super) fn of(session: &Session) -> Result<Self, Error> {
        let (mut mapped, mut seen) = (Vec::new(), HashSet::new());
        for resolver in &session.regions_at_end()? {
            for one in instances(resolver) {
                if seen.insert((one.module.serial(), one.bias, one.start, one.end)) {
                    mapped.push(one.clone());
                }
            }
        }
        Ok(Self { mapped, known: Mutex::default() })
    }

    /// The line that all code has which was ever mapped there.
    pub(super) fn line(&self, ip: VirtAddr) -> Option<Arc<str>> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = known().get(&ip) {
            return line.clone();
        }
        // Not under the lock: it reads debug information.
        let line = agreed(self.mapped.iter().filter(|one| one.start <= ip && ip < one.end).map(|one| {
            let frames = one.module.frames(one.linked(ip));
            let line = frames.first()?.line.as_ref()?;
            Some(line_text(&line.file, line.line))
        }));
        known().insert(ip, line.clone());
        line
    }
}
