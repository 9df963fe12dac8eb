//! The C interfaces match what is recorded in include/abi: sonames, exported symbols, and the declarations in the headers.
//!
//! include/abi/README.md describes what to do if a test here fails because an interface was meant to change.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use e2e::{bin_dir, repository, run, tool};

const LIBRARIES: [&str; 3] = ["libmemtap", "libmemtap_rtheap", "libmemtap_rtmalloc"];

/// The libraries whose functions are those of one header.
const WITH_HEADER: [(&str, &str); 2] =
    [("libmemtap", "memtap_client.h"), ("libmemtap_rtheap", "memtap_rtheap.h")];

const HEADERS: [&str; 3] = ["memtap.h", "memtap_client.h", "memtap_rtheap.h"];

/// What a tool says of a built library.
fn said_of(library: &str, words: &[&str]) -> String {
    let (name, options) = words.split_first().expect("a tool");
    let path = bin_dir().join(format!("{library}.so"));
    let outcome = run(Command::new(tool(name)).args(options).arg(path), b"");
    assert_eq!(outcome.status, 0, "{library}: {}", outcome.err());
    outcome.out()
}

/// The soname that a library has.
fn soname(library: &str) -> String {
    let dynamic = said_of(library, &["readelf", "--dynamic", "--wide"]);
    let entry = dynamic.lines().find_map(|line| line.split_once("Library soname: ["));
    let (_, rest) = entry.unwrap_or_else(|| panic!("{library} has no soname"));
    rest.trim_end_matches(']').to_owned()
}

/// What a library exports.
fn exports(library: &str) -> BTreeSet<String> {
    let symbols = said_of(library, &["nm", "--dynamic", "--defined-only", "--format=posix"]);
    symbols.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// The soname and the symbols that are kept of a library.
fn kept(library: &str) -> (String, BTreeSet<String>) {
    let path = repository().join(format!("include/abi/{library}.symbols"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines();
    let soname = lines.next().and_then(|line| line.strip_suffix(" memtap #MINVER#")).expect("the soname");
    let symbols = lines.map(|line| {
        let (name, version) =
            line.trim_start().split_once("@Base ").unwrap_or_else(|| panic!("{library}: {line:?}"));
        assert_eq!(version.split('.').count(), 3, "{library}: {line:?} has no version of memtap");
        name.to_owned()
    });
    (soname.to_owned(), symbols.collect())
}

fn header(name: &str) -> String {
    fs::read_to_string(repository().join("include").join(name)).expect("the header is there")
}

#[test]
fn libraries_have_the_sonames_and_symbols_that_are_kept() {
    for library in LIBRARIES {
        let (kept_soname, kept_symbols) = kept(library);
        assert_eq!(soname(library), kept_soname, "{library}");
        assert_eq!(exports(library), kept_symbols, "{library}: see include/abi/README.md");
    }
}

#[test]
fn headers_declare_what_their_libraries_export() {
    for (library, name) in WITH_HEADER {
        let declared: BTreeSet<String> = declarations(&header(name))
            .iter()
            .filter(|declaration| !declaration.starts_with("typedef") && !declaration.starts_with('#'))
            .filter_map(|declaration| declaration.split_once('(')?.0.rsplit([' ', '*']).next())
            .map(str::to_owned)
            .collect();
        assert_eq!(declared, kept(library).1, "{name}");
    }
}

#[test]
fn headers_are_as_they_were_released() {
    for name in HEADERS {
        let path = repository().join("include/abi").join(name).with_extension("txt");
        let text = declarations(&header(name)).join("\n") + "\n";
        if std::env::var_os("MEMTAP_BLESS").is_some() {
            fs::write(&path, &text).expect("the repository can be written");
        }
        let kept = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(text, kept, "{name}: see include/abi/README.md");
    }
}

/// What a header declares, one declaration a line: directives of the preprocessor, and what stands outside of braces up to a
/// semicolon or a body.
fn declarations(header: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = header;
    while let Some((before, after)) = rest.split_once("/*") {
        text.push_str(before);
        rest = after.split_once("*/").expect("a comment ends").1;
    }
    text.push_str(rest);
    let mut found = Vec::new();
    let mut open = String::new();
    let mut depth = 0;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            let mut directive = words(line);
            while let Some(start) = directive.strip_suffix('\\') {
                directive = words(&format!("{start} {}", lines.next().expect("a directive ends")));
            }
            found.push(directive);
            continue;
        }
        for character in line.chars() {
            open.push(character);
            depth += match character {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            // What `extern "C" {` encloses is not inside of anything.
            if words(&open) == "extern \"C\" {" {
                depth = 0;
            }
            let is_body = character == '}' && !open.contains("typedef") && !open.contains("enum");
            if depth <= 0 && (character == ';' || is_body || words(&open) == "extern \"C\" {") {
                depth = 0;
                found.push(words(&open));
                open.clear();
            }
        }
        open.push(' ');
    }
    assert_eq!(words(&open), "", "the header ends in the middle");
    found
}

/// The text with single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
