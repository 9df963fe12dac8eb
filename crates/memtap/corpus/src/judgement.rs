//! Compares the findings of a tool on a case with the head of the case.

use crate::{CaseBuild, CorpusCase, ExpectedFinding};

/// One finding as a tool reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// As in [`ExpectedFinding::kind`].
    pub kind: String,
    /// As in [`ExpectedFinding::detail`].
    pub detail: String,
    /// The files and lines that it names.
    pub lines: Vec<(String, u64)>,
    /// In words.
    pub words: String,
}

/// What holds of a tool's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What is wrong and was not found.
    pub missed: Vec<String>,
    /// What was found and is not wrong.
    pub accused: Vec<String>,
}

impl Judgement {
    /// Holds findings to the head.
    pub fn of(case: &CorpusCase, reported: &[Reported]) -> Self {
        let expects = &case.head.expects;
        let missed = expects.iter().filter(|expect| !reported.iter().any(|one| fits(case, expect, one)));
        let accused = reported.iter().filter(|one| {
            !expects.iter().any(|expect| fits(case, expect, one)) && !case.head.allowed.contains(&one.kind)
        });
        Self {
            missed: missed
                .map(|one| format!("{} {}", one.kind, one.detail.as_deref().unwrap_or_default()))
                .collect(),
            accused: accused.map(|one| one.words.clone()).collect(),
        }
    }

    /// Of a tool of which only is known that it complained. What it complains of in a program with an error is that error.
    pub fn of_complaint(case: &CorpusCase, complaint: Option<String>) -> Self {
        match complaint {
            None if !case.head.is_clean() => Self { missed: vec![String::new()], accused: Vec::new() },
            Some(words) if case.head.is_clean() => Self { missed: Vec::new(), accused: vec![words] },
            _ => Self::default(),
        }
    }

    /// Why an answer is not what the head says the tool's answer is today; nothing where it is.
    pub fn against_head(&self, case: &CorpusCase, build: CaseBuild) -> Option<String> {
        let is_known = |reason: Option<&str>, what: &[String]| reason.is_some() != what.is_empty();
        let (misses, accuses) = (case.misses(build), case.accuses(build));
        if case.head.may_miss.is_none() && !is_known(misses, &self.missed) {
            return Some(match misses {
                None => format!("{}: not found: {}", case.title(), self.missed.join(", ")),
                Some(_) => format!("{}: is found; its head says that it is missed", case.title()),
            });
        }
        if !is_known(accuses, &self.accused) {
            return Some(match accuses {
                None => format!("{}: falsely accused: {}", case.title(), self.accused.join("; ")),
                Some(_) => format!("{}: is not accused; its head says that it is", case.title()),
            });
        }
        None
    }
}

/// Whether a finding is that one: of its kind, and where it names lines of the case, on a marked one.
fn fits(case: &CorpusCase, expect: &ExpectedFinding, one: &Reported) -> bool {
    let own = case.source.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut lines = one.lines.iter().filter(|(file, _)| file.rsplit('/').next() == Some(own)).peekable();
    let is_marked = case.head.marked.is_empty()
        || lines.peek().is_none()
        || lines.any(|(_, line)| case.head.marked.contains(line));
    expect.kind == one.kind
        && expect.detail.as_ref().is_none_or(|detail| one.detail.contains(&**detail))
        && is_marked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CaseHead;

    fn check(head: &str, reported: &[(&str, &str, u64)], expect: (usize, usize, bool)) {
        let head = CaseHead::parse(head).expect("a head");
        let case = CorpusCase { kind: "over".into(), name: "a".into(), source: "over/a.c".into(), head };
        let reported: Vec<Reported> = reported
            .iter()
            .map(|(kind, file, line)| Reported {
                kind: (*kind).to_owned(),
                lines: vec![((*file).to_owned(), *line)],
                ..Reported::default()
            })
            .collect();
        let judgement = Judgement::of(&case, &reported);
        let is_known = judgement.against_head(&case, CaseBuild::GccO1).is_none();
        assert_eq!((judgement.missed.len(), judgement.accused.len(), is_known), expect, "{case:?}");
    }

    #[test]
    fn findings_are_held_to_heads() {
        let wrong = "// A.\n// expect: out_of_bounds\nx; // here\n";
        check(wrong, &[("out_of_bounds", "/b/a.c", 3)], (0, 0, true));
        check(wrong, &[("out_of_bounds", "string.h", 9)], (0, 0, true));
        check(wrong, &[("out_of_bounds", "a.c", 4)], (1, 1, false));
        check(wrong, &[], (1, 0, false));
        check("// A.\n// expect: nothing\n", &[], (0, 0, true));
        check("// A.\n// expect: nothing\n", &[("leak", "a.c", 1)], (0, 1, false));
        check("// A.\n// expect: nothing\n// allowed: leak\n", &[("leak", "a.c", 1)], (0, 0, true));
        check("// A.\n// expect: leak\n// memtap misses: so\n", &[], (1, 0, true));
        check("// A.\n// expect: leak\n// memtap misses: so\n", &[("leak", "a.c", 1)], (0, 0, false));
        check("// A.\n// expect: nothing\n// memtap accuses: so\n", &[], (0, 0, false));
    }
}
