//! Selects rows by name and module, and suggests similar names where none matches.

use std::collections::BTreeSet;

use analysis::stack::{CountedStacks, StackId, StackRows};
use analysis::{AccessRow, PairRow, UnusedRow};
use probes::name::matches;

/// Which rows are shown. A row has to match all that is given.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// A glob, or several with commas, that its name matches.
    pub name: Option<String>,
    /// A glob that the file name of its module matches.
    pub module: Option<String>,
}

/// Near names that are shown.
const MOST_NEAR: usize = 5;
/// Shorter parts of a name are not compared on their own.
const LEAST_PART: usize = 3;
/// Similarity from which names are near (Jaro-Winkler).
const LEAST_SIMILARITY: f64 = 0.75;

impl Choice {
    /// Whether everything is shown.
    pub fn is_all(&self) -> bool {
        self.name.is_none() && self.module.is_none()
    }

    fn keeps(&self, name: &str, family: Option<&str>, module: &str) -> bool {
        let named = |glob: &String| matches(glob, name) || family.is_some_and(|family| matches(glob, family));
        self.name.as_ref().is_none_or(named) && self.module.as_ref().is_none_or(|glob| matches(glob, module))
    }

    fn keeps_row(&self, row: &AccessRow) -> bool {
        let in_words = || row.made.is_some().then(|| row.clone().in_words());
        let keeps = |row: &AccessRow| self.keeps(&row.name, row.family.as_deref(), &row.module);
        keeps(row) || in_words().as_ref().is_some_and(keeps)
    }

    /// The rows that are shown.
    ///
    /// # Errors
    /// What to say where there is none, though there were rows.
    pub fn rows(&self, rows: Vec<AccessRow>) -> Result<Vec<AccessRow>, String> {
        self.choose(rows, |row| vec![row])
    }

    /// The pairs of which one side matches.
    ///
    /// # Errors
    /// As for [`Self::rows`].
    pub fn pairs(&self, rows: Vec<PairRow>) -> Result<Vec<PairRow>, String> {
        self.choose(rows, |row| vec![&row.first, &row.second])
    }

    /// The stacks with a function that matches, and with one of such a module.
    ///
    /// # Errors
    /// As for [`Self::rows`].
    pub fn stacks(&self, counted: CountedStacks) -> Result<StackRows, String> {
        if self.is_all() {
            return Ok(counted.all_rows());
        }
        let of_module = |counted: &CountedStacks, glob: &str, stack: StackId| {
            counted.modules(stack).any(|module| matches(glob, module))
        };
        let named = |counted: &CountedStacks, glob: &str, stack: StackId| {
            counted.functions(stack).any(|name| matches(glob, name))
        };
        let is_kept = |counted: &CountedStacks, stack: StackId| {
            self.module.as_ref().is_none_or(|glob| of_module(counted, glob, stack))
                && self.name.as_ref().is_none_or(|glob| named(counted, glob, stack))
        };
        let is_any_kept = counted.stacks().any(|stack| is_kept(&counted, stack));
        if is_any_kept || counted.stacks().next().is_none() {
            return Ok(counted.rows(is_kept));
        }
        if let Some(module) = &self.module
            && !counted.stacks().any(|stack| of_module(&counted, module, stack))
        {
            let modules = counted.stacks().flat_map(|stack| counted.modules(stack)).map(|module| &**module);
            return Err(format!(
                "--module {module}: no stack has a function of it{}",
                suggestion(&near(module, distinct(modules)))
            ));
        }
        let Some(name) = &self.name else { return Err("no stack matches".to_owned()) };
        let is_named = || counted.stacks().any(|stack| named(&counted, name, stack));
        if let Some(module) = self.module.as_ref().filter(|_| is_named()) {
            return Err(format!(
                "--name {name}: is in no stack with --module {module}; leave one of them out"
            ));
        }
        let names = counted.stacks().flat_map(|stack| counted.functions(stack)).map(|function| &**function);
        Err(format!(
            "--name {name}: no stack has such a function{}",
            suggestion(&near(name, distinct(names)))
        ))
    }

    /// The allocation sites that match.
    ///
    /// # Errors
    /// As for [`Self::rows`].
    pub fn unused(&self, rows: Vec<UnusedRow>) -> Result<Vec<UnusedRow>, String> {
        let named = |row: &UnusedRow| AccessRow {
            name: row.name.clone(),
            module: row.module.clone(),
            ..AccessRow::default()
        };
        let kept = self.rows(rows.iter().map(named).collect())?;
        Ok(rows.into_iter().filter(|row| kept.iter().any(|kept| kept.name == row.name)).collect())
    }

    fn choose<T>(&self, rows: Vec<T>, parts: impl Fn(&T) -> Vec<&AccessRow>) -> Result<Vec<T>, String> {
        if self.is_all() || rows.is_empty() {
            return Ok(rows);
        }
        let is_kept = |row: &T| parts(row).into_iter().any(|part| self.keeps_row(part));
        if rows.iter().any(is_kept) {
            return Ok(rows.into_iter().filter(|row| is_kept(row)).collect());
        }
        let all: Vec<&AccessRow> = rows.iter().flat_map(parts).collect();
        Err(self.nothing(&all))
    }

    /// That nothing matches, and what is near.
    fn nothing(&self, rows: &[&AccessRow]) -> String {
        if let Some(module) = &self.module
            && !rows.iter().any(|row| matches(module, &row.module))
        {
            let modules = rows.iter().map(|row| row.module.as_str()).filter(|module| !module.is_empty());
            return format!("--module {module}: no row is of it{}", suggestion(&near(module, modules)));
        }
        let Some(name) = &self.name else { return "no row matches".to_owned() };
        let called: Vec<AccessRow> = rows.iter().map(|row| (*row).clone().in_words()).collect();
        let names = called.iter().map(|row| row.family.as_deref().unwrap_or(&row.name));
        let of_module = self.module.as_ref().filter(|_| rows.iter().any(|row| self.keeps_name(row)));
        if let Some(module) = of_module {
            return format!("--name {name}: is no name of --module {module}; leave one of them out");
        }
        format!("--name {name}: no row has such a name{}", suggestion(&near(name, names)))
    }

    fn keeps_name(&self, row: &AccessRow) -> bool {
        Self { module: None, ..self.clone() }.keeps_row(row)
    }
}

/// Each once. Those of stacks are few, and come very often.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    names.collect()
}

fn suggestion(near: &[String]) -> String {
    match near {
        [] => String::new(),
        [one] => format!("; near is {one}"),
        _ => format!("; near are {}", near.join(", ")),
    }
}

/// The names that are nearest to what was asked for, the nearest first: those that contain it, then those that resemble it.
pub fn near<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let plain = |text: &str| text.to_lowercase();
    let wanted = plain(wanted.trim_matches(['*', '?']));
    let mut all: Vec<(f64, &str)> = names
        .into_iter()
        .map(|name| {
            let lower = plain(name);
            let contains = !wanted.is_empty() && lower.contains(&wanted);
            // What a pattern stands for may be only a part of the name: `func1` of `<malloc@func1+230>`.
            let parts = lower.split(|c: char| !c.is_alphanumeric() && c != '_');
            // `i` resembles whatever begins with it.
            let parts = parts.filter(|part| part.len() >= LEAST_PART);
            let best = parts.map(|part| strsim::jaro_winkler(part, &wanted)).fold(0.0, f64::max);
            (if contains { 2.0 } else { best.max(strsim::jaro_winkler(&lower, &wanted)) }, name)
        })
        .filter(|(similarity, _)| *similarity >= LEAST_SIMILARITY)
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (a.1.len(), a.1).cmp(&(b.1.len(), b.1))));
    all.dedup_by(|a, b| a.1 == b.1);
    all.truncate(MOST_NEAR);
    all.into_iter().map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, module: &str) -> AccessRow {
        AccessRow { name: name.into(), module: module.into(), ..AccessRow::default() }
    }

    fn check(name: Option<&str>, module: Option<&str>, expect: Result<&[&str], &str>) {
        let choice = Choice { name: name.map(str::to_owned), module: module.map(str::to_owned) };
        let rows = vec![row("hash_table", "prog"), row("counter", "prog"), row("stdout", "libc.so.6")];
        let chosen = choice.rows(rows);
        let names = chosen.as_ref().map(|rows| rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>());
        match (names, expect) {
            (Ok(names), Ok(expect)) => assert_eq!(names, expect),
            (Err(words), Err(expect)) => assert_eq!(words, expect),
            (got, expect) => panic!("{got:?}, not {expect:?}"),
        }
    }

    #[test]
    fn rows_are_chosen_by_name_and_module() {
        check(None, None, Ok(&["hash_table", "counter", "stdout"]));
        check(Some("*table"), None, Ok(&["hash_table"]));
        check(None, Some("libc*"), Ok(&["stdout"]));
        check(Some("count?r,stdout"), None, Ok(&["counter", "stdout"]));
    }

    #[test]
    fn what_nothing_matches_is_answered_with_near_names() {
        check(Some("table"), None, Err("--name table: no row has such a name; near is hash_table"));
        check(Some("conter"), None, Err("--name conter: no row has such a name; near is counter"));
        check(Some("xyz*"), None, Err("--name xyz*: no row has such a name"));
        check(None, Some("libc.so"), Err("--module libc.so: no row is of it; near is libc.so.6"));
        check(
            Some("counter"),
            Some("libc.so.6"),
            Err("--name counter: is no name of --module libc.so.6; leave one of them out"),
        );
    }
}
