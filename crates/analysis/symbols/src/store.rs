//! The files of a session. Each is opened once, however many processes map it.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use memref::{RegionChange, RegionEvent, RegionKind};

use crate::{BuildId, Error, Module, SearchPath};

#[derive(Debug, Default)]
struct OpenModules {
    expected: HashMap<String, BuildId>,
    called: HashMap<String, String>,
    modules: HashMap<String, Option<Arc<Module>>>,
    problems: Vec<Arc<Error>>,
    /// The modules whose damaged debug information was told of, by their serial numbers.
    told: HashSet<u32>,
}

/// All modules of a session. Shared by its processes and by the threads that read it.
#[derive(Debug, Default)]
pub struct ModuleStore {
    search: SearchPath,
    inner: Mutex<OpenModules>,
}

impl ModuleStore {
    /// A store that looks for debug files in `search`.
    pub fn new(search: SearchPath) -> Self {
        Self { search, inner: Mutex::default() }
    }

    /// The build that was traced: a file at `path` that is another gives no names. Say so before the file's mappings are
    /// applied.
    pub fn expect(&self, path: &str, build_id: BuildId) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.expected.insert(path.to_owned(), build_id);
        inner.modules.remove(path);
    }

    /// The file at `path` was executed by another file name, as several programs can be one file. Say so before its mappings are applied.
    pub fn call(&self, path: &str, name: &str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.called.insert(path.to_owned(), name.to_owned());
        inner.modules.remove(path);
    }

    /// The module that an event maps a part of, if any: what is executed, or begins with its headers.
    pub fn mapped_by(&self, event: &RegionEvent<String>) -> Option<Arc<Module>> {
        let is_file = event.change == RegionChange::Map && event.name.starts_with('/') && event.len != 0;
        let is_data = event.kind == RegionKind::File && event.rights & 4 == 0 && event.file_offset != 0;
        if is_file && !is_data { self.get(&event.name) } else { None }
    }

    /// The module of a mapped file, by its name among the mappings; `None` if the file is there and is no module.
    ///
    /// A file that can't be read, is damaged or is another build gives a module without symbols, and a
    /// [problem](Self::take_problems).
    pub fn get(&self, name: &str) -> Option<Arc<Module>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = inner.modules.get(name) {
            return known.clone();
        }
        let path = Path::new(name.strip_suffix(" (deleted)").unwrap_or(name));
        let expected = inner.expected.get(name).cloned();
        let called = inner.called.get(name).cloned();
        let open = |file: &Path| -> Result<Module, Error> {
            let module = Module::open_mapped(name, path, file, expected.as_ref(), &self.search)?;
            Ok(module.with_name(called.as_deref()))
        };
        let module = match open(path) {
            Ok(module) => Some(Arc::new(module)),
            Err(Error::NotElf { .. }) if expected.is_none() => None,
            Err(problem) => {
                let mut refused = vec![Arc::new(problem)];
                let mut found = None;
                for place in self.search.places(path, expected.as_ref()) {
                    if !place.is_file() {
                        continue;
                    }
                    match open(&place) {
                        Ok(module) => {
                            found = Some(module);
                            break;
                        }
                        Err(problem) => refused.push(Arc::new(problem)),
                    }
                }
                if found.is_none() {
                    inner.problems.extend(refused);
                }
                Some(Arc::new(found.unwrap_or_else(|| Module::nameless(name).with_name(called.as_deref()))))
            }
        };
        inner.modules.insert(name.to_owned(), module.clone());
        module
    }

    /// Why some files gave no names, or only those of their symbols, since the last call. Damaged debug information is known
    /// when something was read from it: ask after the names.
    pub fn take_problems(&self) -> Vec<Arc<Error>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut problems = std::mem::take(&mut inner.problems);
        let damaged = |module: &Arc<Module>| Some((module.serial(), Arc::clone(module.debug_problem()?)));
        let mut damaged: Vec<_> = inner.modules.values().flatten().filter_map(damaged).collect();
        damaged.sort_by_key(|(serial, _)| *serial);
        for (serial, problem) in damaged {
            if inner.told.insert(serial) {
                problems.push(problem);
            }
        }
        problems
    }
}
