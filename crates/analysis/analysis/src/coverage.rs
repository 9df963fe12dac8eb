//! A description of what a trace covers. It depends on the tracer and on the kinds of memory
//! that were selected. What each tracer omits within that coverage is in docs/limitations.md.

use crate::Session;

/// Which memory's accesses were recorded, and how; `None` where the trace does not tell.
pub fn coverage(session: &Session) -> Option<String> {
    let properties = session.trace().properties();
    // Each trace of several has its own.
    if properties.contains_key("tracer of trace 1") {
        return None;
    }
    words(properties.get("tracer")?, properties.get("regions").map(String::as_str))
}

/// From the name of the tracer and the kinds of memory that were recorded; `None`: all.
fn words(tracer: &str, regions: Option<&str>) -> Option<String> {
    let kinds = match (tracer, regions) {
        ("translate", None) => {
            return Some("recorded by translate: accesses to all memory of the program".to_owned());
        }
        ("translate" | "protect", Some(kinds)) => kinds,
        _ => return None,
    };
    let kinds = match kinds.rsplit_once(',') {
        Some((first, last)) => format!("{} and {last}", first.replace(',', ", ")),
        None => kinds.to_owned(),
    };
    Some(format!("recorded by {tracer}: accesses to {kinds} memory, and to no other"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tracer: &str, regions: Option<&str>, expect: Option<&str>) {
        assert_eq!(words(tracer, regions).as_deref(), expect, "{tracer} {regions:?}");
    }

    #[test]
    fn coverage_is_told_by_tracer_and_kinds() {
        check("translate", None, Some("recorded by translate: accesses to all memory of the program"));
        check(
            "translate",
            Some("stack"),
            Some("recorded by translate: accesses to stack memory, and to no other"),
        );
        check(
            "protect",
            Some("data,bss,heap"),
            Some("recorded by protect: accesses to data, bss and heap memory, and to no other"),
        );
        // Recorded before the kinds were noted, by others, or of a machine.
        check("protect", None, None);
        check("lackey", None, None);
        check("qemu", None, None);
    }
}
