//! Counts of accesses by instruction and data.

use std::collections::BTreeMap;

use memref::Access;
use rustc_hash::FxHashMap;
use symbols::{CodeId, Names, VariableId, VariableKind};

use crate::{Count, Error, Moment, Tool};

/// Counts the accesses of each instruction to each variable and block.
#[derive(Debug, Default)]
pub struct DataTally {
    counts: FxHashMap<(CodeId, VariableId), Count>,
}

impl DataTally {
    /// The accesses of each instruction to each variable, by its name and region; blocks of one allocation site are one, in one
    /// state.
    pub fn by_code(&self, names: &Names) -> BTreeMap<(CodeId, String, &'static str), Count> {
        let mut sums: BTreeMap<(CodeId, String, &'static str), Count> = BTreeMap::new();
        let mut shown: FxHashMap<VariableId, (String, &'static str)> = FxHashMap::default();
        for (&(code, id), count) in &self.counts {
            let (name, region) = shown.entry(id).or_insert_with(|| match names.variable(id) {
                Some(variable) => {
                    let is_block = matches!(variable.kind, VariableKind::Block { .. });
                    let name =
                        if is_block { without_number(&variable.name) } else { variable.name.to_string() };
                    (name, variable.region.name())
                }
                None => ("[unknown]".to_owned(), "unknown"),
            });
            *sums.entry((code, name.clone(), region)).or_default() += *count;
        }
        sums
    }
}

/// `<malloc@f+3>` of `<malloc0014@f+3>`: all blocks of a site.
fn without_number(name: &str) -> String {
    match name.split_once('@') {
        Some((stem, place)) => format!("{}@{place}", stem.trim_end_matches(|c: char| c.is_ascii_digit())),
        None => name.to_owned(),
    }
}

impl Tool for DataTally {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        for access in accesses {
            let code = at.resolver.resolve_code(access.ip);
            let variable = at.resolver.resolve_data(access.addr).variable;
            self.counts.entry((code, variable)).or_default().add(access);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_named_by_their_site() {
        assert_eq!(without_number("<malloc0014@f+3>"), "<malloc@f+3>");
        assert_eq!(without_number("<freed:123456@g@@V1+3>"), "<freed:@g@@V1+3>");
        assert_eq!(without_number("[heap]"), "[heap]");
    }
}
