//! The head of a case: the comment lines at the top of its source.
//!
//! ```c
//! // Writes eight bytes at offset 20 of a block of 24.
//! // command: errors
//! // expect: out_of_bounds
//! ```
//!
//! The first lines describe the case in one sentence. They are followed by lines `key: value`; a line without a key continues the
//! previous one. Where a line of the source ends with `// here`, a finding that names a line of this file must name such a line.

use std::collections::BTreeSet;

/// Which command of memtap is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaseQuestion {
    /// `memtap errors`
    #[default]
    Errors,
    /// `memtap race`
    Race,
    /// `memtap taint`
    Taint,
}

impl CaseQuestion {
    /// The command's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Errors => "errors",
            Self::Race => "race",
            Self::Taint => "taint",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Errors, Self::Race, Self::Taint].into_iter().find(|question| question.name() == name)
    }
}

/// A finding that is true of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedFinding {
    /// The finding's kind as memtap's JSON names it; the sink for taint, `race` for races.
    pub kind: String,
    /// The kind of a leak, or a part of the name of what is raced for, or of the sink's detail.
    pub detail: Option<String>,
}

/// What a tool is known to say wrongly today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFault {
    /// The builds in which it does; all where it is empty.
    pub builds: Vec<String>,
    /// Why.
    pub reason: String,
}

/// What the head of a case says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseHead {
    /// The case in a sentence.
    pub about: String,
    /// `command:` what is asked of the trace.
    pub question: CaseQuestion,
    /// The rest of `command:` arguments of that command.
    pub command_options: Vec<String>,
    /// `record:` options of `memtap record`.
    pub record_options: Vec<String>,
    /// `run:` arguments of the program.
    pub arguments: Vec<String>,
    /// `input:` a line that it gets as standard input.
    pub input: String,
    /// `builds:` the builds in which the case is what it says; all where it is empty.
    pub builds: Vec<String>,
    /// `flags:` more flags for the compiler.
    pub flags: Vec<String>,
    /// `expect:` what is wrong. Nothing in a clean program, which says `expect: nothing`.
    pub expects: Vec<ExpectedFinding>,
    /// `memtap misses: REASON` where memtap does not find it today; `memtap misses in: BUILDS: REASON` where it does so in some
    /// builds alone.
    pub misses: Vec<KnownFault>,
    /// `memtap may miss:` why it depends on the machine whether memtap finds it.
    pub may_miss: Option<String>,
    /// `memtap accuses:` or `memtap accuses in:` where memtap says more than the truth today.
    pub accuses: Vec<KnownFault>,
    /// `allowed:` kinds of findings that docs/limitations.md announces.
    pub allowed: Vec<String>,
    /// Lines that end with the mark.
    pub marked: BTreeSet<u64>,
}

/// Ends a line of the source that a finding must name.
const MARK: &str = "// here";

impl CaseHead {
    /// Reads the head and the marks of a source; the error says what can't be understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut head = Self::default();
        let mut values: Vec<(String, String)> = Vec::new();
        for line in text.lines().map_while(|line| line.strip_prefix("//")) {
            let line = line.trim();
            match (split_key(line), values.last_mut()) {
                (Some((key, value)), _) => values.push((key.to_owned(), value.to_owned())),
                (None, Some((_, value))) => *value = format!("{value} {line}").trim().to_owned(),
                (None, None) => head.about = format!("{} {line}", head.about).trim().to_owned(),
            }
        }
        if head.about.is_empty() {
            return Err("the head does not begin with a sentence".to_owned());
        }
        let mut is_judged = false;
        for (key, value) in values {
            is_judged |= key == "expect";
            head.set(&key, &value)?;
        }
        if !is_judged {
            return Err("the head has no line `expect:`".to_owned());
        }
        let lines = (1..).zip(text.lines());
        head.marked = lines.filter(|(_, line)| line.trim_end().ends_with(MARK)).map(|(at, _)| at).collect();
        Ok(head)
    }

    /// Whether nothing is wrong with the program.
    pub fn is_clean(&self) -> bool {
        self.expects.is_empty()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let words = || value.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        match key {
            "command" => {
                let mut words = words();
                let name = if words.is_empty() { String::new() } else { words.remove(0) };
                self.question =
                    CaseQuestion::named(&name).ok_or_else(|| format!("{name:?} is no command"))?;
                self.command_options = words;
            }
            "record" => self.record_options = words(),
            "run" => self.arguments = words(),
            "input" => self.input = format!("{value}\n"),
            "builds" => self.builds = words(),
            "flags" => self.flags = words(),
            "expect" if value == "nothing" => {}
            "expect" => {
                let (kind, detail) = value.split_once(' ').map_or((value, None), |(k, d)| (k, Some(d)));
                self.expects
                    .push(ExpectedFinding { kind: kind.to_owned(), detail: detail.map(str::to_owned) });
            }
            "memtap misses" => self.misses.push(KnownFault::everywhere(value)),
            "memtap accuses" => self.accuses.push(KnownFault::everywhere(value)),
            "memtap may miss" => self.may_miss = Some(value.to_owned()),
            "memtap misses in" => self.misses.push(KnownFault::in_builds(value)?),
            "memtap accuses in" => self.accuses.push(KnownFault::in_builds(value)?),
            "allowed" => self.allowed = words(),
            _ => return Err(format!("{key:?} is no key of a head")),
        }
        Ok(())
    }
}

impl KnownFault {
    fn everywhere(reason: &str) -> Self {
        Self { builds: Vec::new(), reason: reason.to_owned() }
    }

    fn in_builds(value: &str) -> Result<Self, String> {
        let (builds, reason) =
            value.split_once(": ").ok_or_else(|| format!("{value:?} names no builds before a colon"))?;
        let builds: Vec<String> = builds.split_whitespace().map(str::to_owned).collect();
        Ok(Self { builds, reason: reason.to_owned() })
    }

    /// The first of them that holds in a build.
    pub(crate) fn first<'f>(faults: &'f [Self], build: &str) -> Option<&'f str> {
        let holds = |fault: &&Self| fault.builds.is_empty() || fault.builds.iter().any(|name| name == build);
        faults.iter().find(holds).map(|fault| &*fault.reason)
    }
}

/// A key is a few words in lower case before a colon.
fn split_key(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(": ")?;
    let is_key = key.split(' ').count() <= 3 && key.bytes().all(|b| b.is_ascii_lowercase() || b == b' ');
    is_key.then(|| (key, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read() {
        let text = "// Writes behind\n// a block of 24 bytes: by one.\n// command: errors --top 3\n// record: --data\n// expect: leak definite\n\
                    // memtap misses: for a reason that\n// takes two lines\n\nint x; // here\n// expect: nothing\n";
        let head = CaseHead::parse(text).expect("it is one");
        assert_eq!(head.about, "Writes behind a block of 24 bytes: by one.");
        assert_eq!(
            (head.question, head.command_options),
            (CaseQuestion::Errors, vec!["--top".into(), "3".into()])
        );
        assert_eq!(head.record_options, ["--data"]);
        let leak = ExpectedFinding { kind: "leak".into(), detail: Some("definite".into()) };
        assert_eq!(head.expects, [leak]);
        let reason = "for a reason that takes two lines";
        assert_eq!(KnownFault::first(&head.misses, "gcc-O2"), Some(reason));
        assert_eq!(head.marked, BTreeSet::from([9]));
    }

    #[test]
    fn faults_of_some_builds() {
        let text = "// A case.\n// expect: leak\n// memtap misses in: gcc-O2 clang-O2: no branch\n";
        let head = CaseHead::parse(text).expect("it is one");
        assert_eq!(KnownFault::first(&head.misses, "clang-O2"), Some("no branch"));
        assert_eq!(KnownFault::first(&head.misses, "gcc-O1"), None);
    }

    #[test]
    fn heads_that_say_too_little_or_too_much() {
        let problem = |text: &str| CaseHead::parse(text).expect_err("it is none");
        assert!(problem("int x;").contains("sentence"));
        assert!(problem("// A case.\n").contains("expect"));
        assert!(problem("// A case.\n// expected: leak\n").contains("expected"));
        assert!(problem("// A case.\n// command: find\n// expect: leak\n").contains("find"));
    }
}
