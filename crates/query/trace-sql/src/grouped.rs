//! Names as texts where a query groups by them.
//!
//! The tables have names as dictionaries, which is how they are known while a trace is read. DataFusion groups
//! dictionaries in a general way, row by row; texts it groups as columns, in a third of the time with the
//! conversion included.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, cast};

/// The plan, with texts in place of dictionaries of texts in what it groups by.
pub(crate) fn by_texts(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !groups_by_dictionaries(&plan)? {
        return Ok(plan);
    }
    let node = |node: LogicalPlan| {
        let node = match node {
            LogicalPlan::Aggregate(aggregate) => LogicalPlan::Aggregate(over_texts(aggregate)?),
            other => other.recompute_schema()?,
        };
        Ok(Transformed::yes(node))
    };
    Ok(plan.transform_up_with_subqueries(node)?.data)
}

/// Whether there is something to do. A recursive query is left as it is: its parts agree on their types already.
fn groups_by_dictionaries(plan: &LogicalPlan) -> Result<bool> {
    let (mut found, mut is_recursive) = (false, false);
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Aggregate(aggregate) => {
                for group in &aggregate.group_expr {
                    found |= dictionary_of(group, aggregate.input.schema())?.is_some();
                }
            }
            LogicalPlan::RecursiveQuery(_) => is_recursive = true,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found && !is_recursive)
}

/// What the values of a group are, where they lie in a dictionary. Sets of groups are none.
fn dictionary_of(group: &Expr, schema: &DFSchema) -> Result<Option<DataType>> {
    if matches!(group, Expr::GroupingSet(_)) {
        return Ok(None);
    }
    Ok(match group.get_type(schema)? {
        DataType::Dictionary(_, values) => Some(*values),
        _ => None,
    })
}

/// The same groups, of the same names.
fn over_texts(aggregate: Aggregate) -> Result<Aggregate> {
    let schema = Arc::clone(aggregate.input.schema());
    let group = |group: Expr| match dictionary_of(&group, &schema)? {
        Some(values) => {
            let (relation, name) = group.qualified_name();
            Ok(cast(group, values).alias_qualified(relation, name))
        }
        None => Ok(group),
    };
    let groups = aggregate.group_expr.into_iter().map(group).collect::<Result<_>>()?;
    Aggregate::try_new(aggregate.input, groups, aggregate.aggr_expr)
}
