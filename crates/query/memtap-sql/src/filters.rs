//! What of a query's conditions the reading of accesses, allocations and synchronisation can leave out by itself. DataFusion checks each
//! row again, so that too much may come, and never too little.

use std::collections::BTreeSet;
use std::ops::Range;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use memref::{AccessKind, ThreadId, VirtAddr};
use memtap_arrow::{Scan, TraceTable};
use trace_format::KindSet;

/// A condition on one column: these numbers, and no others.
#[derive(Clone, Debug, PartialEq)]
struct NumberCondition {
    column: String,
    numbers: Range<u64>,
}

/// A number that a query has.
fn number(value: &Expr) -> Option<i128> {
    match value {
        Expr::Literal(value, _) => match value {
            ScalarValue::Int64(Some(number)) => Some((*number).into()),
            ScalarValue::UInt64(Some(number)) => Some((*number).into()),
            ScalarValue::Int32(Some(number)) => Some((*number).into()),
            ScalarValue::UInt32(Some(number)) => Some((*number).into()),
            _ => None,
        },
        Expr::Cast(cast) => number(&cast.expr),
        _ => None,
    }
}

fn text(value: &Expr) -> Option<&str> {
    match value {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        Expr::Cast(cast) => text(&cast.expr),
        _ => None,
    }
}

fn column(value: &Expr) -> Option<&str> {
    match value {
        Expr::Column(column) => Some(&column.name),
        Expr::Cast(cast) => column(&cast.expr),
        Expr::TryCast(cast) => column(&cast.expr),
        _ => None,
    }
}

fn turned(operator: Operator) -> Operator {
    operator.swap().unwrap_or(operator)
}

/// Numbers from one to another, as far as there are such.
fn range(from: i128, to: i128) -> Range<u64> {
    let cut = |number: i128| number.clamp(0, u64::MAX.into()) as u64;
    cut(from)..cut(to)
}

fn number_condition(expr: &BinaryExpr) -> Option<NumberCondition> {
    let sides = column(&expr.left).zip(number(&expr.right)).map(|sides| (sides, expr.op));
    let ((column, value), operator) =
        sides.or_else(|| Some((column(&expr.right).zip(number(&expr.left))?, turned(expr.op))))?;
    let most = i128::from(u64::MAX);
    let numbers = match operator {
        Operator::Eq => range(value, value + 1),
        Operator::Lt => range(0, value),
        Operator::LtEq => range(0, value + 1),
        Operator::Gt => range(value + 1, most),
        Operator::GtEq => range(value, most),
        _ => return None,
    };
    Some(NumberCondition { column: column.to_owned(), numbers })
}

/// The range of both.
fn both(one: Option<&Range<u64>>, other: &Range<u64>) -> Range<u64> {
    one.map_or_else(|| other.clone(), |one| one.start.max(other.start)..one.end.min(other.end))
}

fn threads(scan: &mut Scan, wanted: BTreeSet<ThreadId>) {
    scan.threads = Some(match scan.threads.take() {
        Some(before) => before.intersection(&wanted).copied().collect(),
        None => wanted,
    });
}

fn one_range(ranges: &mut Vec<Range<VirtAddr>>, wanted: &Range<u64>) {
    let before = ranges.first().map(|range| range.start.0..range.end.0);
    let now = both(before.as_ref(), wanted);
    *ranges = vec![VirtAddr(now.start)..VirtAddr(now.end.max(now.start))];
}

fn apply_numbers(scan: &mut Scan, condition: &NumberCondition) -> bool {
    let NumberCondition { column, numbers } = condition;
    match column.as_str() {
        "cycle" => scan.filter.cycles = Some(both(scan.filter.cycles.as_ref(), numbers)),
        "ip" => one_range(&mut scan.filter.ips, numbers),
        // What touches a byte of the range may begin before it, and does not match the query then: it is checked again.
        "addr" => one_range(&mut scan.filter.addresses, numbers),
        "thread" => {
            // A trace has no more threads than numbers of 32 bits; a long range is no list.
            if numbers.end.saturating_sub(numbers.start) > 1 << 16 {
                return false;
            }
            threads(
                scan,
                numbers.clone().filter_map(|number| u32::try_from(number).ok()).map(ThreadId).collect(),
            );
        }
        _ => return false,
    }
    true
}

fn kind(name: &str) -> Option<KindSet> {
    let kinds = [AccessKind::Load, AccessKind::Store, AccessKind::Modify, AccessKind::Prefetch];
    kinds.into_iter().find(|kind| kind.to_string() == name).map(KindSet::access)
}

fn apply_kinds(scan: &mut Scan, names: &[&str]) -> bool {
    let known = names.iter().map(|name| kind(name)).collect::<Option<Vec<_>>>();
    let Some(kinds) = known.filter(|_| scan.table == TraceTable::Accesses) else { return false };
    let wanted = kinds.into_iter().fold(0, |all, kinds| all | kinds.0);
    scan.filter.kinds = KindSet(scan.filter.kinds.0 & wanted);
    true
}

fn apply_list(scan: &mut Scan, list: &InList) -> bool {
    let Some(column) = column(&list.expr).filter(|_| !list.negated) else { return false };
    match column {
        "kind" => list
            .list
            .iter()
            .map(text)
            .collect::<Option<Vec<_>>>()
            .is_some_and(|names| apply_kinds(scan, &names)),
        "thread" => {
            let numbers = list.list.iter().map(|one| u32::try_from(number(one)?).ok());
            let Some(wanted) = numbers.map(|number| number.map(ThreadId)).collect() else { return false };
            threads(scan, wanted);
            true
        }
        _ => false,
    }
}

/// Leaves out of a scan what one condition excludes. `false`: it can't.
pub(crate) fn apply(scan: &mut Scan, condition: &Expr) -> bool {
    // Other tables are read whole.
    if !matches!(scan.table, TraceTable::Accesses | TraceTable::Allocations | TraceTable::Syncs) {
        return false;
    }
    match condition {
        Expr::BinaryExpr(both) if both.op == Operator::And => {
            let left = apply(scan, &both.left);
            apply(scan, &both.right) | left
        }
        Expr::BinaryExpr(expr) => {
            if let Some(condition) = number_condition(expr) {
                return apply_numbers(scan, &condition);
            }
            let sides = column(&expr.left).zip(text(&expr.right));
            let sides = sides.or_else(|| column(&expr.right).zip(text(&expr.left)));
            matches!(sides, Some(("kind", _)) if expr.op == Operator::Eq)
                && sides.is_some_and(|(_, name)| apply_kinds(scan, &[name]))
        }
        Expr::Between(between) if !between.negated => {
            let bounds = column(&between.expr).zip(number(&between.low).zip(number(&between.high)));
            bounds.is_some_and(|(column, (low, high))| {
                let condition = NumberCondition {
                    column: column.to_owned(),
                    numbers: range(low, high.saturating_add(1)),
                };
                apply_numbers(scan, &condition)
            })
        }
        Expr::InList(list) => apply_list(scan, list),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    fn scan(condition: &Expr) -> (Scan, bool) {
        let mut scan = Scan::of(TraceTable::Accesses);
        let is_applied = apply(&mut scan, condition);
        (scan, is_applied)
    }

    #[test]
    fn conditions_become_filters() {
        let (one, applied) = scan(&col("cycle").gt_eq(lit(5i64)).and(col("cycle").lt(lit(9i64))));
        assert!(applied && one.filter.cycles == Some(5..9));
        let (one, applied) = scan(&lit(0x10u64).eq(col("addr")));
        assert!(applied && one.filter.addresses == [VirtAddr(0x10)..VirtAddr(0x11)]);
        let (one, applied) = scan(&col("ip").between(lit(-3i64), lit(7i64)));
        assert!(applied && one.filter.ips == [VirtAddr(0)..VirtAddr(8)]);
        let (one, applied) = scan(&col("kind").in_list(vec![lit("load"), lit("modify")], false));
        assert!(applied && one.filter.kinds == KindSet::READS);
        let (one, applied) = scan(&col("thread").eq(lit(2i64)).and(col("size").eq(lit(8i64))));
        assert!(applied && one.threads == Some([ThreadId(2)].into()));
        for other in [
            col("size").eq(lit(8i64)),
            col("kind").eq(lit("lodes")),
            col("cycle").not_eq(lit(4i64)),
            col("cycle").eq(lit(4i64)).or(col("ip").eq(lit(4i64))),
            col("thread").in_list(vec![lit(1i64)], true),
        ] {
            let (one, applied) = scan(&other);
            assert!(!applied && one.is_all(), "{other}");
        }
    }
}
