//! Translates the conditions of a query for a scan, as far as the scan
//! can use them to leave out rows. DataFusion checks each row again.

use std::ops::Range;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use memref::ThreadId;
use memtap_arrow::Scan;

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

fn apply_list(scan: &mut Scan, list: &InList) -> bool {
    let Some(column) = column(&list.expr).filter(|_| !list.negated) else { return false };
    match column {
        "kind" | "variable" => {
            let names = list.list.iter().map(text).collect::<Option<Vec<_>>>();
            names.is_some_and(|names| keep_names(scan, column, &names))
        }
        "thread" => {
            let numbers = list.list.iter().map(|one| u32::try_from(number(one)?).ok());
            let wanted: Option<Vec<_>> = numbers.map(|number| number.map(ThreadId)).collect();
            wanted.is_some_and(|wanted| scan.keep_threads(wanted))
        }
        _ => false,
    }
}

/// Leaves out all but rows with one of these names in a column. `false`: it can't.
fn keep_names(scan: &mut Scan, column: &str, names: &[&str]) -> bool {
    match column {
        "kind" => scan.keep_kinds(names),
        "variable" => scan.keep_variables(names),
        _ => false,
    }
}

/// Leaves out of a scan what one condition excludes. `false`: it can't.
pub(crate) fn apply(scan: &mut Scan, condition: &Expr) -> bool {
    if !scan.can_leave_out() {
        return false;
    }
    match condition {
        Expr::BinaryExpr(both) if both.op == Operator::And => {
            let left = apply(scan, &both.left);
            apply(scan, &both.right) | left
        }
        Expr::BinaryExpr(expr) => {
            if let Some(condition) = number_condition(expr) {
                return scan.keep_numbers(&condition.column, &condition.numbers);
            }
            let sides = column(&expr.left).zip(text(&expr.right));
            let sides = sides.or_else(|| column(&expr.right).zip(text(&expr.left)));
            let sides = sides.filter(|_| expr.op == Operator::Eq);
            sides.is_some_and(|(column, name)| keep_names(scan, column, &[name]))
        }
        Expr::Between(between) if !between.negated => {
            let bounds = column(&between.expr).zip(number(&between.low).zip(number(&between.high)));
            bounds.is_some_and(|(column, (low, high))| {
                let condition = NumberCondition {
                    column: column.to_owned(),
                    numbers: range(low, high.saturating_add(1)),
                };
                scan.keep_numbers(&condition.column, &condition.numbers)
            })
        }
        Expr::InList(list) => apply_list(scan, list),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};
    use memref::VirtAddr;
    use memtap_arrow::TraceTable;
    use trace_format::KindSet;

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
        let (one, applied) = scan(&col("variable").eq(lit("a")));
        assert!(applied && one.variables == Some(["a".into()].into()));
        let (one, applied) = scan(&col("variable").in_list(vec![lit("a"), lit("b")], false));
        assert!(applied && one.variables == Some(["a".into(), "b".into()].into()));
        for other in [
            col("size").eq(lit(8i64)),
            col("kind").eq(lit("lodes")),
            col("cycle").not_eq(lit(4i64)),
            col("cycle").eq(lit(4i64)).or(col("ip").eq(lit(4i64))),
            col("thread").in_list(vec![lit(1i64)], true),
            col("variable").in_list(vec![lit("a")], true),
            col("variable").not_eq(lit("a")),
            col("variable").eq(lit("a")).or(col("size").eq(lit(8i64))),
            col("function").eq(lit("f")),
        ] {
            let (one, applied) = scan(&other);
            assert!(!applied && one.is_all(), "{other}");
        }
    }
}
