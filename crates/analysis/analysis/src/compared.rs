//! Two runs side by side: the rows of two tables, matched by name.
//!
//! Names survive a rebuild, addresses do not. Therefore the blocks of all allocating calls in
//! one function are one row (`<malloc@read_line>`, whichever call it was), the elements of an
//! array are one row, and the program's own code is one module, whatever its file is called.

use std::collections::HashMap;
use std::sync::Arc;

use crate::stack::StackCount;
use crate::{Count, CountedRows, Owner};

/// What one name stands for in both runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparedRow {
    /// What was accessed, or who accessed.
    pub name: String,
    /// The file name of its module in the run that has it, the second one where both do.
    pub module: String,
    /// How often in the first run.
    pub before: Count,
    /// How often in the second one.
    pub after: Count,
}

impl ComparedRow {
    /// How many accesses there are more in the second run; below 0, fewer.
    pub fn growth(&self) -> i128 {
        i128::from(self.after.accesses()) - i128::from(self.before.accesses())
    }

    /// What rows have together.
    pub fn total<'a>(rows: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut total = Self { name: "total".to_owned(), ..Self::default() };
        for row in rows {
            total.before += row.before;
            total.after += row.after;
        }
        total
    }
}

/// Two tables of the same kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Their rows, what changed most first.
    pub rows: Vec<ComparedRow>,
    /// Both runs' accesses. An access that several rows have counts once.
    pub total: ComparedRow,
}

/// Aligns two tables of the same kind.
pub fn compared(before: CountedRows, after: CountedRows) -> Comparison {
    let mut runs = Aligned::default();
    let total = ComparedRow { before: before.total, after: after.total, ..ComparedRow::total([]) };
    for (rows, is_after) in [(before.rows, false), (after.rows, true)] {
        for row in rows {
            let name = without_offset(row.family.as_deref().unwrap_or(&row.name));
            let module = if row.owner == Owner::Program { String::new() } else { row.module.clone() };
            runs.add([name, module], row.module, row.count, is_after);
        }
    }
    Comparison { rows: runs.sorted(), total }
}

/// The same for stacks; a name is the functions, the outermost first.
pub fn compared_stacks(before: &[StackCount], after: &[StackCount]) -> Comparison {
    let mut runs = Aligned::default();
    for (rows, is_after) in [(before, false), (after, true)] {
        for row in rows {
            let functions: Vec<&str> = row.stack.iter().map(Arc::as_ref).collect();
            runs.add([functions.join(";"), String::new()], String::new(), row.count, is_after);
        }
    }
    let rows = runs.sorted();
    Comparison { total: ComparedRow::total(&rows), rows }
}

/// Rows of both runs by what they are aligned by.
#[derive(Default)]
struct Aligned {
    rows: Vec<ComparedRow>,
    place_of: HashMap<[String; 2], usize>,
}

impl Aligned {
    fn add(&mut self, key: [String; 2], module: String, count: Count, is_after: bool) {
        let place = *self.place_of.entry(key).or_insert_with_key(|[name, _]| {
            self.rows.push(ComparedRow { name: name.clone(), ..ComparedRow::default() });
            self.rows.len() - 1
        });
        let row = &mut self.rows[place];
        row.module = module;
        *(if is_after { &mut row.after } else { &mut row.before }) += count;
    }

    fn sorted(mut self) -> Vec<ComparedRow> {
        self.rows.sort_by(|a, b| {
            let change = |row: &ComparedRow| (row.growth().unsigned_abs(), row.after.accesses());
            change(b).cmp(&change(a)).then_with(|| a.name.cmp(&b.name))
        });
        self.rows
    }
}

/// The name of a call's blocks without where in its function the call is: `<malloc@make+3>` is `<malloc@make>`.
fn without_offset(name: &str) -> String {
    let offset = |&(plus, _): &(usize, &str)| {
        let rest = name.get(plus + 1..)?;
        let digits =
            rest.find('>').filter(|&end| end > 0 && rest[..end].bytes().all(|byte| byte.is_ascii_digit()))?;
        Some((plus, plus + 1 + digits))
    };
    let is_call = name.starts_with('<') && name.contains('@');
    match name.rmatch_indices('+').filter(|_| is_call).find_map(|found| offset(&found)) {
        Some((plus, end)) => format!("{}{}", &name[..plus], &name[end..]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AccessRow;

    fn row(name: &str, loads: u64, owner: Owner) -> AccessRow {
        let module = if owner == Owner::Program { format!("build-{loads}") } else { "libc.so.6".to_owned() };
        AccessRow {
            name: name.into(),
            count: Count { loads, ..Count::default() },
            owner,
            module,
            ..AccessRow::default()
        }
    }

    fn block(name: &str, call: &str, loads: u64) -> AccessRow {
        AccessRow { family: Some(call.into()), ..row(name, loads, Owner::Program) }
    }

    #[test]
    fn rows_meet_by_name_wherever_they_lie() {
        let before = vec![
            row("same", 7, Owner::Program),
            row("gone", 30, Owner::Program),
            row("stdout", 1, Owner::CLibrary),
            block("<malloc0001@make+3>", "<malloc@make+3>", 5),
            block("<malloc0002@make+3>", "<malloc@make+3>", 5),
        ];
        let after = vec![
            block("<malloc0001@make+17>", "<malloc@make+17>", 4),
            block("<malloc0002@make+40>", "<malloc@make+40>", 90),
            row("stdout", 2, Owner::CLibrary),
            row("stdout", 50, Owner::Program),
            row("same", 7, Owner::Program),
        ];
        let count = |loads: u64| Count { loads, ..Count::default() };
        let table = |rows, loads| CountedRows { rows, total: count(loads) };
        let comparison = compared(table(before, 45), table(after, 150));
        assert_eq!((comparison.total.before, comparison.total.after), (count(45), count(150)));
        let found: Vec<(String, u64, u64)> =
            comparison.rows.into_iter().map(|row| (row.name, row.before.loads, row.after.loads)).collect();
        let expect =
            [("<malloc@make>", 10, 94), ("stdout", 0, 50), ("gone", 30, 0), ("stdout", 1, 2), ("same", 7, 7)];
        assert_eq!(found, expect.map(|(name, before, after)| (name.to_owned(), before, after)));
    }

    #[test]
    fn names_with_signs_of_their_own_stay() {
        let check = |name: &str, expect: &str| assert_eq!(without_offset(name), expect);
        check("<malloc@std::vector<int>::grow+3>", "<malloc@std::vector<int>::grow>");
        check("<calloc@f+12> (freed)", "<calloc@f> (freed)");
        check("operator+<int>", "operator+<int>");
        check("table+16", "table+16");
    }
}
