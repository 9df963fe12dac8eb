//! Cache lines that threads share: which lines, which threads, and what would have to be moved apart.

use std::io::{self, Write};

use analysis::Owner;
use analysis::lines::{ApartFrom, LineGroup, LinePart, SharedBy};
use serde_json::{Value, json};

use super::appearance::{Look, Tone, Toned};
use super::{json as write_json, mark_doubt, place};
use crate::number::{amount, grouped};

/// Parts that people see of a group.
const PARTS: usize = 8;
const NAMES: usize = 4;

/// Writes them as a JSON array. Events are missing where `uncertain`.
///
/// # Errors
/// Where the output can't be written.
pub fn lines_json(groups: &[LineGroup], uncertain: bool, out: &mut dyn Write) -> io::Result<()> {
    let all = groups.iter().map(|group| {
        let mut object = json!({
            "process": group.process.0,
            "address": group.address.0,
            "lines": group.lines,
            "sharing": group.shared_by.name(),
            "changes": group.true_changes + group.false_changes,
            "true_changes": group.true_changes,
            "false_changes": group.false_changes,
            "most_changes": group.most_changes,
            "accesses": group.count.accesses(),
            "owner": group.owner.name(),
            "names": group.names,
            "parts": group.parts.iter().map(part_json).collect::<Vec<_>>(),
            "apart": group.apart.iter().map(apart_json).collect::<Vec<_>>(),
        });
        mark_doubt(&mut object, uncertain);
        object
    });
    write_json(&all.collect(), out)
}

fn part_json(part: &LinePart) -> Value {
    json!({
        "name": part.name, "offset": part.offset, "size": part.size, "thread": part.thread.0,
        "function": part.function, "file": part.file, "line": part.line,
        "loads": part.count.loads, "stores": part.count.stores, "modifies": part.count.modifies,
        "changes": part.changes,
    })
}

fn apart_json(apart: &ApartFrom) -> Value {
    json!({ "threads": apart.threads.iter().map(|thread| thread.0).collect::<Vec<_>>(), "names": apart.names })
}

/// Writes them for people: false sharing first, then true; the first `top` of the program's own each, unless all are asked for.
///
/// # Errors
/// Where the output can't be written.
pub fn lines_text(
    groups: &[LineGroup],
    top: usize,
    all: bool,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (own, others): (Vec<&LineGroup>, Vec<&LineGroup>) =
        groups.iter().partition(|group| all || group.owner == Owner::Program);
    if own.is_empty() {
        writeln!(out, "no cache line of the program's is written by one thread and used by another")?;
    }
    let kinds = [
        (SharedBy::OtherBytes, "false sharing: threads use different bytes of one line"),
        (SharedBy::SameBytes, "true sharing: threads use the same bytes"),
    ];
    for (kind, head) in kinds {
        let of_kind: Vec<&&LineGroup> = own.iter().filter(|group| group.shared_by == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        writeln!(out, "{}", Toned(look, Tone::Strong, head))?;
        let shown = if all { of_kind.len() } else { top };
        for group in of_kind.iter().take(shown) {
            group_text(group, look, out)?;
        }
        if let Some(more) = of_kind.len().checked_sub(shown).filter(|more| *more > 0) {
            writeln!(
                out,
                "  {}",
                Toned(look, Tone::Faint, &format!("{} more (--top N, --all)", grouped(more as u64)))
            )?;
        }
    }
    if !others.is_empty() {
        let lines: u64 = others.iter().map(|group| group.lines).sum();
        let text = format!("of the C library and others: {} (--all)", amount(lines, "line"));
        writeln!(out, "{}", Toned(look, Tone::Faint, &text))?;
    }
    Ok(())
}

fn group_text(group: &LineGroup, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let changes = group.true_changes + group.false_changes;
    let at = if group.lines == 1 {
        format!("the line at {}", group.address)
    } else {
        format!("{}, the first at {}", amount(group.lines, "line"), group.address)
    };
    let most = if group.most_changes > changes {
        format!(" in the trace's order, at most {}", grouped(group.most_changes))
    } else {
        String::new()
    };
    let mut head = format!(
        "  {at}: {} of owner{most}, {}",
        amount(changes, "change"),
        amount(group.count.accesses(), "access")
    );
    let other = match group.shared_by {
        SharedBy::OtherBytes => group.true_changes,
        SharedBy::SameBytes => group.false_changes,
    };
    if other > 0 {
        let bytes = if group.shared_by == SharedBy::OtherBytes { "the same" } else { "different" };
        head.push_str(&format!(" ({} of {bytes} bytes)", amount(other, "change")));
    }
    writeln!(out, "{head}")?;
    for part in group.parts.iter().take(PARTS) {
        let mut what = Vec::new();
        for (number, name) in [(part.count.loads, "load"), (part.count.stores, "store")]
            .into_iter()
            .filter(|(number, _)| *number > 0)
        {
            what.push(amount(number, name));
        }
        if part.count.modifies > 0 {
            what.push(format!(
                "{} modif{}",
                grouped(part.count.modifies),
                if part.count.modifies == 1 { "y" } else { "ies" }
            ));
        }
        let place = place(part.file.as_deref(), part.line);
        writeln!(
            out,
            "    {}  thread {}: {}  {}{place}",
            part.name,
            part.thread.0,
            what.join(", "),
            part.function
        )?;
    }
    if let Some(more) = group.parts.len().checked_sub(PARTS).filter(|more| *more > 0) {
        writeln!(
            out,
            "    {}",
            Toned(look, Tone::Faint, &format!("{} more (--json)", grouped(more as u64)))
        )?;
    }
    if let Some(advice) = advice(&group.apart) {
        writeln!(out, "    {}", Toned(look, Tone::Strong, &advice))?;
    }
    Ok(())
}

/// What would have to lie apart, in words.
fn advice(apart: &[ApartFrom]) -> Option<String> {
    let names = |one: &ApartFrom| {
        let mut names =
            one.names.iter().take(NAMES).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        if one.names.len() > NAMES {
            names.push_str(&format!(" and {} more", one.names.len() - NAMES));
        }
        names
    };
    let threads = |one: &ApartFrom| {
        let numbers: Vec<String> = one.threads.iter().map(|thread| thread.0.to_string()).collect();
        format!("thread{} {}", if numbers.len() == 1 { "" } else { "s" }, numbers.join(", "))
    };
    match apart {
        [] => None,
        [one] => Some(format!(
            "to do: what each thread uses of {} in lines of its own (64 bytes apart)",
            names(one)
        )),
        several => {
            let sides: Vec<String> =
                several.iter().take(NAMES).map(|one| format!("{} ({})", names(one), threads(one))).collect();
            let more = several.len().saturating_sub(NAMES);
            let more = if more > 0 { format!(", and so on for {more} more") } else { String::new() };
            Some(format!("to do: 64 bytes apart: {}{more}", sides.join(" | ")))
        }
    }
}
