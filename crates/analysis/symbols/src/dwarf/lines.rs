//! Functions and source lines by address.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use elf::LinkAddr;

use super::sections::{Sections, SharedSlice};
use crate::{LineFrame, SourceLine, demangle::demangle};

/// Inlining nests no deeper than this; what lies further out is left away.
const MAX_FRAMES: usize = 64;

#[derive(Default)]
struct Interned(HashMap<Box<str>, Arc<str>>);

impl Interned {
    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(text.into(), Arc::clone(&new));
        new
    }
}

/// The line tables of a module, each read when it is first needed. One thread at a time: answers are kept by
/// [`crate::Names`].
pub(crate) struct Lines {
    inner: Mutex<(addr2line::Context<SharedSlice>, Interned)>,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl Lines {
    pub(crate) fn new(sections: &Sections) -> Option<Self> {
        let context = addr2line::Context::from_dwarf(sections.shared());
        let context = context.inspect_err(|damage| sections.note_damage(damage)).ok()?;
        Some(Self { inner: Mutex::new((context, Interned::default())) })
    }

    /// `sections` are those that it was made of.
    pub(crate) fn frames(&self, sections: &Sections, address: LinkAddr) -> Vec<LineFrame> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (context, interned) = &mut *inner;
        let mut all = Vec::new();
        let mut frames = match context.find_frames(address.0).skip_all_loads() {
            Ok(frames) => frames,
            Err(damage) => {
                sections.note_damage(&damage);
                return all;
            }
        };
        let mut next = || frames.next().inspect_err(|damage| sections.note_damage(damage));
        while let Ok(Some(frame)) = next() {
            let function = frame.function.as_ref().and_then(|name| {
                let raw = name.raw_name().ok()?;
                Some(interned.get(&demangle(&raw)))
            });
            let line = frame.location.and_then(|location| {
                // Line 0 is the compiler's "no line".
                let line = location.line.filter(|line| *line != 0);
                Some(SourceLine { file: interned.get(location.file?), line })
            });
            all.push(LineFrame { function, line });
            if all.len() == MAX_FRAMES {
                break;
            }
        }
        all
    }
}
