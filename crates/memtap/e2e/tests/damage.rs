//! Every command that meets damage reports it. Whatever is flipped, zeroed or cut off in a trace,
//! an answer is that of the whole trace, or it comes with a line that says what is missing.

use std::path::Path;
use std::process::Command;

use e2e::{Finished, TestProgram, Trace, memtap, run};

/// The commands that read traces, each with what it makes of one.
const COMMANDS: [&[&str]; 7] = [
    &["stat", "--json"],
    &["report", "--by", "variable", "--json"],
    &["report", "--by", "function", "--json"],
    &["dump"],
    &["race", "--json"],
    &["determinism", "--json"],
    &["heatmap", "-o", "picture.svg"],
];
/// So many injuries a trace: `MEMTAP_INJURIES` makes it more.
const INJURIES: u64 = 30;

/// Numbers that look random and are the same in each run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Injures the bytes and says how.
fn injure(bytes: &mut Vec<u8>, numbers: &mut Numbers) -> String {
    let at = numbers.below(bytes.len() as u64) as usize;
    match numbers.below(5) {
        0 => {
            bytes.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            let end = bytes.len().min(at + 1 + numbers.below(4096) as usize);
            bytes[at..end].fill(0);
            format!("zeros in {at}..{end}")
        }
        _ => {
            let bit = numbers.below(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
    }
}

struct Answer {
    outcome: Finished,
    /// Of a command that makes a file, that file.
    picture: Option<Vec<u8>>,
}

impl Answer {
    fn of(words: &[&str], trace: &Path, dir: &Path) -> Self {
        let mut command = Command::new(memtap());
        command.arg(words[0]).arg(trace).args(&words[1..]).current_dir(dir);
        let outcome = run(&mut command, b"");
        let path = dir.join("picture.svg");
        let picture = std::fs::read(&path).ok();
        let _ = std::fs::remove_file(path);
        Self { outcome, picture }
    }

    fn is_the_same(&self, other: &Self) -> bool {
        self.outcome.status == other.outcome.status
            && self.outcome.stdout == other.outcome.stdout
            && self.picture == other.picture
    }
}

fn walk(trace: &Trace, seed: u64) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let injured = dir.path().join("injured.memtap");
    let whole = std::fs::read(&trace.path).expect("the trace is there");
    // Under the same name, so that titles are the same.
    std::fs::write(&injured, &whole).expect("there is room");
    let told: Vec<Answer> = COMMANDS.iter().map(|words| Answer::of(words, &injured, dir.path())).collect();
    for (words, answer) in COMMANDS.iter().zip(&told) {
        assert_eq!(answer.outcome.status, 0, "{words:?}: {}", answer.outcome.err());
        assert!(
            !answer.outcome.err().contains("memtap check"),
            "nothing is damaged: {}",
            answer.outcome.err()
        );
    }
    let injuries = std::env::var("MEMTAP_INJURIES").ok().and_then(|n| n.parse().ok()).unwrap_or(INJURIES);
    let mut numbers = Numbers(seed);
    for _ in 0..injuries {
        let mut bytes = whole.clone();
        let how = injure(&mut bytes, &mut numbers);
        std::fs::write(&injured, &bytes).expect("there is room");
        for (words, told) in COMMANDS.iter().zip(&told) {
            let answer = Answer::of(words, &injured, dir.path());
            let said = answer.outcome.err();
            let mut lines = said.lines().filter(|line| !line.starts_with("memtap: note: "));
            let refused =
                answer.outcome.status == 1 && said.starts_with("memtap: ") && lines.next().is_some();
            let lacks = answer.outcome.status == 0 && said.contains("; see memtap check");
            assert!(
                answer.is_the_same(told) || refused || lacks,
                "{how}: memtap {words:?} says something else, and not that anything is damaged (status {}): {said}",
                answer.outcome.status
            );
        }
    }
}

#[test]
fn an_injured_trace_of_threads_is_told_by_every_command() {
    walk(&TestProgram::named("threads.c").record_by("translate").trace, 1);
}

#[test]
fn an_injured_trace_with_data_is_told_by_every_command() {
    walk(&TestProgram::named("heap.c").record_with("translate", &["--data"]).trace, 2);
}

#[test]
fn an_injured_trace_by_page_protection_is_told_by_every_command() {
    walk(&TestProgram::named("heap.c").record_by("protect").trace, 3);
}

/// One bit in the frame of regions made accesses to the stack nameless, without a word.
#[test]
fn a_damaged_table_of_regions_is_told_and_strict_fails() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let trace = TestProgram::named("heap.c").record_by("translate").trace;
    let streams = trace.ask("stat", &["--streams"]).out();
    assert!(streams.contains("regions"), "{streams}");
    let whole = std::fs::read(&trace.path).expect("the trace is there");
    let injured = dir.path().join("injured.memtap");
    // The first injury, from the front, of which the line says that it struck the regions.
    let told = (0..whole.len()).step_by(64).find_map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&injured, &bytes).expect("there is room");
        let answer = Trace::at(injured.clone()).ask("stat", &["--json"]);
        answer.err().contains("of regions can't be read").then_some(answer)
    });
    let told = told.expect("the frame of regions is somewhere");
    assert_eq!((told.status, told.err().lines().count()), (0, 1), "{}", told.err());
    let stat: serde_json::Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(stat["damaged"].as_array().map(Vec::len), Some(1), "{stat}");
    let strict = Trace::at(injured).ask("report", &["--strict"]);
    assert_eq!(strict.status, 1, "{}", strict.err());
    assert!(strict.err().contains("of regions can't be read"), "{}", strict.err());
    assert_eq!(trace.ask("report", &["--strict"]).status, 0, "a whole trace");
}
