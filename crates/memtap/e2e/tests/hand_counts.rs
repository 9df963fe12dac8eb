//! The hand counts themselves, checked with Valgrind's Lackey. An error that both share cannot come from memtap.

use e2e::{Tally, TestProgram, repository, run_lackey, variables};

/// Every program that Lackey can count.
#[test]
fn lackey_agrees_with_the_heads_of_the_programs() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    let dir = std::fs::read_dir(repository().join("tests/programs")).expect("the programs are there");
    for entry in dir {
        let name = entry.expect("a directory can be read").file_name().into_string().expect("ASCII");
        if !name.ends_with(".c") && !name.ends_with(".cpp") && !name.ends_with(".S") && !name.ends_with(".rs")
        {
            continue;
        }
        // What can't be run alone, or not counted under Valgrind, says so at its head.
        let source =
            std::fs::read_to_string(repository().join("tests/programs").join(&name)).expect("it was listed");
        if source.contains("// alone: no") || source.contains("// lackey: no") {
            continue;
        }
        let program = TestProgram::named(&name);
        // Where nothing is counted there is nothing to compare, and threads may take minutes under Valgrind.
        if program.header.expect.is_empty() || !program.can_run() {
            continue;
        }
        let references = run_lackey(&program);
        for place in variables(&program.path) {
            let name = place.name.split('.').next().unwrap_or(&place.name);
            let Some(expectation) = program.header.expect.iter().find(|e| e.name == name) else { continue };
            let mut tally = Tally::default();
            for r in references.iter().filter(|r| r.kind != 'I' && place.range.contains(&r.addr)) {
                tally.count(r.kind, r.size);
            }
            checked += 1;
            if tally != expectation.tally {
                wrong.push(format!("{:?} {name}: {tally:?}, not {:?}", program.path, expectation.tally));
            }
        }
    }
    assert!(checked > 40, "only {checked} variables were checked");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
