//! The functions that have no probe, and why.

use crate::provider::Unprobed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Written by discovery, which is not on any hit's path.
static UNPROBED: Mutex<Vec<Unprobed>> = Mutex::new(Vec::new());

fn list() -> MutexGuard<'static, Vec<Unprobed>> {
    UNPROBED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Those of the module with that path are these.
pub(super) fn replace(module: &str, those: Vec<Unprobed>) {
    let mut list = list();
    list.retain(|u| u.module != module);
    list.extend(those);
}

/// Notes one more.
pub(super) fn add(one: Unprobed) {
    list().push(one);
}

/// All of them.
pub(super) fn all() -> Vec<Unprobed> {
    list().clone()
}
