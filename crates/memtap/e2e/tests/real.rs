//! Real programs under `record`: the same output, the same messages and the same exit status as natively.

use std::path::Path;
use std::process::Command;

use e2e::{Recording, record, repository, run, tool};

/// Runs a command natively and recorded by that tracer, and returns the recording.
fn check(tracer: &str, line: &[&str], stdin: &[u8]) -> Recording {
    let mut full: Vec<String> = line.iter().map(|s| s.to_string()).collect();
    full[0] = tool(line[0]).display().to_string();
    let native = run(Command::new(&full[0]).args(&full[1..]), stdin);
    let recording = record(&[format!("--tracer={tracer}")], &full, stdin);
    let recorded = &recording.outcome;
    assert_eq!(recorded.status, native.status, "exit status of {line:?}: {}", recorded.err());
    assert!(recorded.stdout == native.stdout, "standard output of {line:?} differs: {}", recorded.err());
    assert_eq!(recorded.err(), native.err(), "standard error of {line:?}");
    assert_eq!(recording.trace.number("gaps"), 0, "gaps of {line:?}");
    assert!(recording.trace.number("accesses") > 1000, "hardly an access of {line:?} was recorded");
    recording
}

/// Text that compresses and sorts like text, of about that many bytes.
fn text(len_bytes: usize) -> String {
    let words =
        ["memory", "access", "load", "store", "page", "frame", "trace", "segment", "cursor", "stream"];
    let mut seed = 1u64;
    let mut text = String::new();
    while text.len() < len_bytes {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        text.push_str(words[(seed >> 40) as usize % words.len()]);
        text.push(if seed >> 60 == 0 { '\n' } else { ' ' });
        if seed >> 58 == 5 {
            text.push_str(&format!("{}\n", seed >> 45));
        }
    }
    text.push('\n');
    text
}

fn file(dir: &Path, name: &str, content: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).expect("a temporary directory can be written");
    path.display().to_string()
}

fn gzip(tracer: &str) {
    let readme = repository().join("README.md").display().to_string();
    let recording = check(tracer, &["gzip", "-c", "-n", &readme], b"");
    assert!(recording.trace.number("loads") > 10_000);
}

fn gzip_there_and_back(tracer: &str) {
    let text = text(20_000);
    let packed = check(tracer, &["gzip", "-n"], text.as_bytes()).outcome.stdout;
    let unpacked = check(tracer, &["gzip", "-d"], &packed).outcome.stdout;
    assert_eq!(String::from_utf8(unpacked).expect("it was text"), text);
}

fn gzip_of_a_file_that_is_not_there(tracer: &str) {
    let mut line = vec!["gzip".to_owned(), "-c".to_owned(), "/no/such/file".to_owned()];
    line[0] = tool("gzip").display().to_string();
    let recording = record(&[format!("--tracer={tracer}")], &line, b"");
    assert_eq!(recording.outcome.status, 1);
    assert!(recording.outcome.err().contains("/no/such/file"), "{}", recording.outcome.err());
}

fn bzip2(tracer: &str) {
    check(tracer, &["bzip2", "-c"], text(10_000).as_bytes());
}

fn sort_with_several_threads(tracer: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // GNU sort starts threads from 131,072 lines on. Nearly sorted, they take few comparisons.
    let lines: String = (0..132_000).map(|number| format!("{:06}\n", number ^ 5)).collect();
    let path = file(dir.path(), "lines", &lines);
    let recording = check(tracer, &["env", "LC_ALL=C", "sort", "--parallel=4", "-S", "64M", &path], b"");
    assert!(recording.trace.number("threads") > 1, "sort started no thread");
}

fn sqlite3(tracer: &str) {
    let script = "create table t(a integer primary key, b text);\n\
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 300) insert into t select i, hex(i * 7919) from n;\n\
        create index u on t(b);\n\
        select count(*), sum(a), max(b) from t where b like '3%';\n\
        select substr(b, 1, 2), count(*) from t group by 1 order by 2 desc, 1 limit 5;\n";
    check(tracer, &["sqlite3", ":memory:"], script.as_bytes());
}

fn python3(tracer: &str) {
    let script = "import json, re, hashlib, collections\n\
        words = re.findall(r'[a-z]+', 'the quick brown fox jumps over the lazy dog ' * 20)\n\
        print(json.dumps(collections.Counter(words).most_common(3)))\n\
        print(hashlib.sha256(' '.join(words).encode()).hexdigest())\n\
        try:\n    [][1]\nexcept IndexError as e:\n    print('caught', e)\n\
        raise SystemExit(5)\n";
    check(tracer, &["python3", "-I", "-S", "-c", script], b"");
}

fn perl(tracer: &str) {
    let script = "my %n; $n{$_}++ for map { $_ % 17 } 1..500; print join(',', map {\"$_=$n{$_}\"} sort { $a <=> $b } keys %n), \"\\n\"; \
        my $s = 'abc' x 50; $s =~ s/b(c)/$1$1/g; print length($s), \"\\n\"; warn \"careful\\n\"; exit 3";
    check(tracer, &["perl", "-e", script], b"");
}

fn ls(tracer: &str) {
    let programs = repository().join("tests").display().to_string();
    check(tracer, &["ls", "-R", &programs], b"");
}

fn a_pipeline_of_the_shell(tracer: &str) {
    check(tracer, &["sh", "-c", "printf '3\\n1\\n2\\n' | sort | tr '\\n' ' '; exit 4"], b"");
}

macro_rules! by_both_tracers {
    ($($name:ident),+ $(,)?) => {
        mod protected {
            $(#[test] fn $name() { super::$name("protect"); })+
        }
        mod translated {
            $(#[test] fn $name() { super::$name("translate"); })+
        }
    };
}

by_both_tracers! {
    gzip,
    gzip_there_and_back,
    gzip_of_a_file_that_is_not_there,
    bzip2,
    sort_with_several_threads,
    sqlite3,
    python3,
    perl,
    ls,
    a_pipeline_of_the_shell,
}
