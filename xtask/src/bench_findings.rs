//! `cargo xtask bench findings`: the verdicts of memtap, Valgrind and the compilers'
//! sanitizers on the corpus of small programs with known errors, in one table, as Markdown.
//!
//! Each row is a kind of error. After the table come the errors that memtap missed and the false accusations of
//! every tool. The programs are in `crates/memtap/e2e/corpus`, and the head of each states the truth about it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use corpus::{CaseBuild, CorpusCase, CorpusError, Judgement};

use crate::table::Table;
use crate::{install, shell};

const USAGE: &str = "usage: cargo xtask bench findings [--only KIND[/CASE]] [--tools memtap,memcheck,asan] [--builds gcc-O1,...] \
                     [--memtap PATH] [--jobs N] [--record]";

/// Where `--record` writes the table.
const DOCUMENT: &str = "docs/findings.md";

/// Who judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judge {
    Memtap,
    Memcheck,
    Asan,
}

impl Judge {
    const ALL: [Self; 3] = [Self::Memtap, Self::Memcheck, Self::Asan];

    const fn name(self) -> &'static str {
        match self {
            Self::Memtap => "memtap",
            Self::Memcheck => "memcheck",
            Self::Asan => "asan",
        }
    }
}

/// What the command line asks for.
struct Options {
    only: Option<String>,
    judges: Vec<Judge>,
    builds: Vec<CaseBuild>,
    memtap: Option<PathBuf>,
    jobs: usize,
    is_recorded: bool,
}

/// One case in one build, and what each judge said, in the order of the options; nothing where it does not look for such errors.
struct Judged<'a> {
    case: &'a CorpusCase,
    build: CaseBuild,
    answers: Vec<Option<Judgement>>,
}

/// Judges the corpus; fails where memtap's answer is not what a head says.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    let options = Options::read(rest)?;
    let memtap = match &options.memtap {
        Some(path) => path.clone(),
        None => {
            install::tools(install::BENCH)?;
            shell::run(&["cargo", "build", "--release", "-p", "memtap", "-p", "interpose"])?;
            shell::profile_dir("release").join("memtap")
        }
    };
    let all = CorpusCase::all(&shell::repository().join("crates/memtap/e2e/corpus"))?;
    let is_asked = |case: &&CorpusCase| {
        options.only.as_ref().is_none_or(|only| *only == case.kind || *only == case.title())
    };
    let cases: Vec<&CorpusCase> = all.iter().filter(is_asked).collect();
    let pairs = cases.iter().flat_map(|case| options.builds.iter().map(move |build| (*case, *build)));
    let pairs: Vec<_> = pairs.filter(|(case, build)| build.fits(case)).collect();
    if pairs.is_empty() {
        bail!("no case is asked for\n{USAGE}");
    }
    let (judged, failures) = judge_all(&options, &memtap, &pairs);
    let text = format!("{}{}", table(&options, &judged), lists(&options, &judged));
    println!("{text}");
    if options.is_recorded {
        let head = "# Findings\n\nThis page is the output of `cargo xtask bench findings`. Each program counts once per build. For races, helgrind takes \
                    the place of memcheck, and\nThreadSanitizer that of AddressSanitizer.\n";
        std::fs::write(DOCUMENT, format!("{head}{text}")).context(DOCUMENT)?;
    }
    for failure in &failures {
        println!("- not judged: {}", failure.to_string().lines().next().unwrap_or_default());
    }
    let memtap_at = options.judges.iter().position(|judge| *judge == Judge::Memtap);
    let against = |one: &Judged<'_>| {
        let problem = one.answers[memtap_at?].as_ref()?.against_head(one.case, one.build)?;
        Some(format!("- {problem} ({})", one.build.name()))
    };
    let surprises: Vec<String> = judged.iter().filter_map(against).collect();
    if !surprises.is_empty() {
        println!("Heads that are not true of memtap any more:\n\n{}", surprises.join("\n"));
    }
    if !surprises.is_empty() || !failures.is_empty() {
        bail!(
            "{} answers of memtap are not what the heads say, {} cases were not judged",
            surprises.len(),
            failures.len()
        );
    }
    Ok(())
}

impl Options {
    fn read(rest: &[&str]) -> Result<Self> {
        let mut options = Self {
            only: None,
            judges: Judge::ALL.to_vec(),
            builds: CaseBuild::ALL.to_vec(),
            memtap: None,
            jobs: 2,
            is_recorded: false,
        };
        let mut words = rest.iter();
        while let Some(&word) = words.next() {
            if word == "--record" {
                options.is_recorded = true;
                continue;
            }
            let value = *words.next().with_context(|| format!("{word} without a value\n{USAGE}"))?;
            let list = value.split(',');
            match word {
                "--only" => options.only = Some(value.to_owned()),
                "--tools" => {
                    let judge = |name: &str| Judge::ALL.into_iter().find(|judge| judge.name() == name);
                    let judges: Option<Vec<_>> = list.map(judge).collect();
                    options.judges = judges.with_context(|| format!("{value}: no such tools\n{USAGE}"))?;
                }
                "--builds" => {
                    let builds: Option<Vec<_>> = list.map(CaseBuild::named).collect();
                    options.builds = builds.with_context(|| format!("{value}: no such builds\n{USAGE}"))?;
                }
                "--memtap" => options.memtap = Some(PathBuf::from(value)),
                "--jobs" => {
                    options.jobs =
                        value.parse().with_context(|| format!("{value} is not a number of jobs"))?;
                }
                _ => bail!("{word} is not known\n{USAGE}"),
            }
        }
        Ok(options)
    }
}

/// Judges all pairs, several at a time; the second list says what could not be judged.
fn judge_all<'a>(
    options: &Options,
    memtap: &Path,
    pairs: &[(&'a CorpusCase, CaseBuild)],
) -> (Vec<Judged<'a>>, Vec<CorpusError>) {
    let results =
        corpus::in_parallel(pairs, options.jobs, |(case, build)| judge(options, memtap, case, *build));
    let (mut judged, mut failures) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(one) => judged.push(one),
            Err(error) => failures.push(error),
        }
    }
    (judged, failures)
}

fn judge<'a>(
    options: &Options,
    memtap: &Path,
    case: &'a CorpusCase,
    build: CaseBuild,
) -> Result<Judged<'a>, CorpusError> {
    let dir = shell::target_dir().join("corpus");
    let binary = build.build(case, &dir)?;
    let ask = |judge: &Judge| match judge {
        Judge::Memtap => corpus::judge_by_memtap(memtap, case, &binary).map(Some),
        Judge::Memcheck => corpus::judge_by_valgrind(case, &binary),
        Judge::Asan => corpus::judge_by_sanitizer(case, build, &dir),
    };
    let answers = options.judges.iter().map(ask).collect::<Result<_, _>>()?;
    Ok(Judged { case, build, answers })
}

/// A row for each kind, and one for all.
fn table(options: &Options, judged: &[Judged<'_>]) -> String {
    let mut head = vec!["kind".to_owned(), "with an error".to_owned()];
    head.extend(options.judges.iter().map(|judge| format!("found by {}", judge.name())));
    head.push("clean".to_owned());
    head.extend(options.judges.iter().map(|judge| format!("falsely reported by {}", judge.name())));
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    let mut kinds: Vec<&str> = judged.iter().map(|one| &*one.case.kind).collect();
    kinds.dedup();
    for kind in kinds.iter().map(|kind| Some(*kind)).chain([None]) {
        let of_kind = judged.iter().filter(|one| kind.is_none_or(|kind| one.case.kind == kind));
        let (clean, wrong): (Vec<_>, Vec<_>) = of_kind.partition(|one| one.case.head.is_clean());
        let count = |among: &[&Judged<'_>], at: usize, holds: fn(&Judgement) -> bool| {
            let answers: Vec<_> = among.iter().filter_map(|one| one.answers[at].as_ref()).collect();
            let number = answers.iter().filter(|answer| holds(answer)).count();
            // Where a tool was not asked of all, the number of those stands beside it.
            match answers.len() {
                0 if !among.is_empty() => "-".to_owned(),
                asked if asked < among.len() => format!("{number} of {asked}"),
                _ => number.to_string(),
            }
        };
        let judges = 0..options.judges.len();
        let mut row = vec![kind.unwrap_or("all").to_owned(), wrong.len().to_string()];
        row.extend(judges.clone().map(|at| count(&wrong, at, |answer| answer.missed.is_empty())));
        row.push(clean.len().to_string());
        row.extend(judges.map(|at| count(&clean, at, |answer| !answer.accused.is_empty())));
        table.row(row);
    }
    table.text("### Findings")
}

/// What the judges missed, and whom they accused falsely: a line for each case and what was said of it, with its builds.
fn lists(options: &Options, judged: &[Judged<'_>]) -> String {
    let here = format!("{}/", shell::repository().display());
    let mut text = String::new();
    for (at, judge) in options.judges.iter().enumerate() {
        let is_memtap = *judge == Judge::Memtap;
        let lines = |of: fn(&Judgement) -> &[String],
                     reason: for<'c> fn(&'c Judged<'_>) -> Option<&'c str>| {
            let mut builds: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
            for one in judged {
                let Some(words) = one.answers[at].as_ref().map(of).filter(|words| !words.is_empty()) else {
                    continue;
                };
                // Why memtap does so stands in the head; where it does not, memtap's answer is news.
                let why = match reason(one) {
                    Some(reason) if is_memtap => reason.to_owned(),
                    None if is_memtap => format!("**not in the head**: {}", words.join("; ")),
                    // Sanitizers name the file with all its folders.
                    _ => words.join("; ").replace(&here, ""),
                };
                builds.entry((one.case.title(), why)).or_default().push(one.build.name());
            }
            let line = |((title, why), builds): (&(String, String), &Vec<&str>)| {
                let why = if why.is_empty() { String::new() } else { format!(": {why}") };
                format!("- {title} ({}){why}\n", builds.join(", "))
            };
            builds.iter().map(line).collect::<String>()
        };
        let missed = lines(|answer| &answer.missed, |one| one.case.misses(one.build));
        let accused = lines(|answer| &answer.accused, |one| one.case.accuses(one.build));
        for (what, lines) in [("Missed by", missed), ("Falsely reported by", accused)] {
            if !lines.is_empty() {
                let _ = write!(text, "\n{what} {}:\n\n{lines}", judge.name());
            }
        }
    }
    text
}
