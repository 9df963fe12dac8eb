//! What `*` stands for: all columns but those that are read only for who names them, as SQLite has it with `rowid`.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Ident, Join, JoinOperator, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use memtap_arrow::TraceTable;

/// Leaves those columns out of what each `*` of a statement stands for. In joins with something that may have columns of the same name
/// (a subquery, the same table) `*` keeps all: it could not be said which is meant.
pub(crate) fn leave_out(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => {
            let ControlFlow::Continue(()) = statement.visit(&mut Wildcards::default());
        }
        Statement::Explain(explain) => leave_out(&mut explain.statement),
        _ => {}
    }
}

/// Columns of a table that `*` does not stand for.
fn named_columns(table: TraceTable) -> impl Iterator<Item = &'static str> {
    table.columns().iter().filter(|column| column.by_name_only).map(|column| column.name)
}

fn text(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// The last part of a name.
fn last(name: &ObjectName) -> Option<String> {
    Some(text(name.0.last()?.as_ident()?))
}

/// What is asked in a FROM.
struct Relation {
    table: TraceTable,
    /// By which its columns are called.
    name: String,
}

impl Relation {
    fn of(factor: &TableFactor) -> Option<Self> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
        let table = last(name)?;
        let alias = alias.as_ref().map(|alias| text(&alias.name));
        Some(Self { table: TraceTable::from_name(&table)?, name: alias.unwrap_or(table) })
    }
}

/// Whether a join has all columns of both sides.
fn has_both(join: &Join) -> bool {
    use JoinOperator::{CrossJoin, FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    matches!(
        join.join_operator,
        Join(_) | Inner(_) | Left(_) | LeftOuter(_) | Right(_) | RightOuter(_) | FullOuter(_) | CrossJoin(_)
    )
}

/// The columns that a `*` leaves out, of all that is asked; none where another relation may have a column of that name.
fn left_out_of_all(select: &Select) -> Vec<&'static str> {
    if !select.from.iter().flat_map(|from| &from.joins).all(has_both) {
        return Vec::new();
    }
    let joined = select.from.iter().flat_map(|from| from.joins.iter().map(|join| &join.relation));
    let all = select.from.iter().map(|from| &from.relation).chain(joined);
    let Some(relations) = all.map(Relation::of).collect::<Option<Vec<_>>>() else { return Vec::new() };
    let has =
        |relation: &&Relation, name: &str| relation.table.columns().iter().any(|column| column.name == name);
    let is_alone = |name: &&str| relations.iter().filter(|relation| has(relation, name)).count() == 1;
    relations.iter().flat_map(|relation| named_columns(relation.table)).filter(is_alone).collect()
}

/// The columns that `name.*` leaves out.
fn left_out_of_one(select: &Select, name: &ObjectName) -> Vec<&'static str> {
    let joined = select.from.iter().flat_map(|from| from.joins.iter().map(|join| &join.relation));
    let mut all = select.from.iter().map(|from| &from.relation).chain(joined).filter_map(Relation::of);
    let wanted = last(name);
    let found = all.find(|relation| wanted.as_ref() == Some(&relation.name));
    found.map(|relation| named_columns(relation.table).collect()).unwrap_or_default()
}

/// Adds to what is left out of a `*` already.
fn exclude(options: &mut WildcardAdditionalOptions, columns: Vec<&'static str>) {
    let mut excluded = match options.opt_exclude.take() {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
    };
    let excepted = options.opt_except.iter();
    let excepted: Vec<String> = excepted
        .flat_map(|except| std::iter::once(&except.first_element).chain(&except.additional_elements))
        .map(text)
        .collect();
    for column in columns {
        let is_there = excluded.iter().any(|name| last(name).as_deref() == Some(column))
            || excepted.iter().any(|name| name == column);
        if !is_there {
            excluded.push(ObjectName::from(vec![Ident::new(column)]));
        }
    }
    options.opt_exclude = (!excluded.is_empty()).then_some(ExcludeSelectItem::Multiple(excluded));
}

#[derive(Default)]
struct Wildcards {
    /// Whether the query gives a name of a table to something else.
    is_renamed: bool,
}

impl VisitorMut for Wildcards {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        self.is_renamed |=
            named.map(|named| text(&named.alias.name)).any(|name| TraceTable::from_name(&name).is_some());
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        if self.is_renamed {
            return ControlFlow::Continue(());
        }
        let mut items = std::mem::take(&mut select.projection);
        for item in &mut items {
            match item {
                SelectItem::Wildcard(options) => exclude(options, left_out_of_all(select)),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    exclude(options, left_out_of_one(select, name));
                }
                _ => {}
            }
        }
        select.projection = items;
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn check(query: &str, expect: &str) {
        let mut parsed = DFParser::parse_sql(query).unwrap();
        let mut statement = parsed.pop_front().unwrap();
        leave_out(&mut statement);
        assert_eq!(statement.to_string(), expect, "{query}");
    }

    #[test]
    fn a_star_has_no_columns_that_want_to_be_named() {
        let check_same = |query: &str| check(query, query);
        check("SELECT * FROM accesses", "SELECT * EXCLUDE (context) FROM accesses");
        check(
            "SELECT *, context FROM Accesses LIMIT 3",
            "SELECT *, context FROM Accesses LIMIT 3".replace("*,", "* EXCLUDE (context),").as_str(),
        );
        check("EXPLAIN SELECT * FROM accesses", "EXPLAIN SELECT * EXCLUDE (context) FROM accesses");
        check(
            "SELECT a.*, t.* FROM accesses AS a JOIN threads AS t ON a.thread = t.thread",
            "SELECT a.* EXCLUDE (context), t.* FROM accesses AS a JOIN threads AS t ON a.thread = t.thread",
        );
        check(
            "SELECT * FROM threads JOIN accesses USING(thread)",
            "SELECT * EXCLUDE (context) FROM threads JOIN accesses USING(thread)",
        );
        check("SELECT * EXCLUDE (ip) FROM accesses", "SELECT * EXCLUDE (ip, context) FROM accesses");
        check("SELECT * EXCLUDE context FROM accesses", "SELECT * EXCLUDE (context) FROM accesses");
        check(
            "SELECT n FROM (SELECT * FROM accesses) UNION SELECT * FROM accesses",
            "SELECT n FROM (SELECT * EXCLUDE (context) FROM accesses) UNION SELECT * EXCLUDE (context) FROM accesses",
        );
        check_same("SELECT * EXCEPT (context) FROM accesses");
        check_same("SELECT * FROM contexts");
        check_same("SELECT * FROM accesses JOIN contexts USING(context)");
        check_same("SELECT * FROM accesses AS a JOIN accesses AS b ON a.addr = b.addr");
        check_same("SELECT * FROM accesses JOIN (SELECT 1 AS thread) AS s USING(thread)");
        check_same("SELECT * FROM (SELECT context FROM accesses)");
        check_same("WITH accesses AS (SELECT ip FROM syncs) SELECT * FROM accesses");
        check_same("SELECT count(*) FROM accesses");
        check_same("SHOW TABLES");
    }
}
