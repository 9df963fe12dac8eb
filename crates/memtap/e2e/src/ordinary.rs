//! Ordinary programs without errors, in which error detection must find none.

use crate::{Recording, record, repository, tool};

/// Records one of them by its name; see [`each_ordinary_program`](crate::each_ordinary_program). It must end well.
pub fn record_ordinary(name: &str) -> Recording {
    let here = repository();
    let options: Vec<String> = match name {
        "jq" => vec![".".into()],
        "python3" => {
            let code = "import json; print(len(json.dumps({str(i): [i] * i for i in range(30)})))";
            vec!["-S".into(), "-c".into(), code.into()]
        }
        "rg" => vec!["-n".into(), "mem.*access".into(), here.join("README.md").display().to_string()],
        "lua5.4" => {
            let code = "local t = {} for i = 1, 300 do t[i] = ('x'):rep(i % 50) .. i end table.sort(t) print(#table.concat(t))";
            vec!["-e".into(), code.into()]
        }
        "perl" => {
            let code =
                "my %h; $h{\"k$_\"} = 'v' x ($_ % 40) for 1..300; print join(',', sort keys %h), \"\\n\"";
            vec!["-e".into(), code.into()]
        }
        "git" => ["-C", &here.display().to_string(), "log", "--stat", "-n", "1"].map(str::to_owned).to_vec(),
        "sqlite3" => {
            let sql = "create table t(a, b); insert into t values (1, 'one'), (2, 'two'), (3, 'three'); create index i on t(b); \
                       select b, sum(a) from t where b like 't%' group by b;";
            vec![":memory:".into(), sql.into()]
        }
        _ => panic!("{name} is none of the ordinary programs"),
    };
    let line: Vec<String> = std::iter::once(tool(name).display().to_string()).chain(options).collect();
    let recording =
        record(&[], &line, b"{\"a\": [1, 2, {\"b\": \"some text that is longer than a vector of bytes\"}]}");
    assert_eq!(recording.outcome.status, 0, "{}", recording.outcome.err());
    recording
}

/// A test for each of them, which calls the function of that name with the recording.
#[macro_export]
macro_rules! each_ordinary_program {
    ($check:ident) => {
        $crate::each_ordinary_program! {
            $check: jq_is_clean "jq", python_is_clean "python3", ripgrep_is_clean "rg", lua_is_clean "lua5.4",
            perl_is_clean "perl", git_is_clean "git", sqlite_is_clean "sqlite3"
        }
    };
    ($check:ident: $($test:ident $program:literal),*) => {
        $(#[test]
        fn $test() {
            $check(&$crate::record_ordinary($program));
        })*
    };
}
