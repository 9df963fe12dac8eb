//! Lines of source beside their counts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// Adds the line of source to each row of a table by line, as `text`, and says which files it could not use.
pub(crate) fn add_text(rows: &mut [Value], trace: &Path) -> Vec<String> {
    let recorded = fs::metadata(trace).and_then(|metadata| metadata.modified()).ok();
    let mut notes = Vec::new();
    let mut files: BTreeMap<String, Option<Vec<String>>> = BTreeMap::new();
    for row in rows {
        let name = row["name"].as_str().unwrap_or_default().to_owned();
        let Some((file, Ok(line))) = name.rsplit_once(':').map(|(file, line)| (file, line.parse::<usize>()))
        else {
            continue;
        };
        let lines = files.entry(file.to_owned()).or_insert_with(|| {
            let Ok(bytes) = fs::read(file) else {
                notes.push(format!("{file} is not there, or can't be read"));
                return None;
            };
            let changed = fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
            if changed > recorded {
                notes
                    .push(format!("{file} has changed since the program was recorded: lines may have moved"));
            }
            Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
        });
        if let Some(text) = lines.as_ref().and_then(|lines| lines.get(line.checked_sub(1)?)) {
            row["text"] = json!(text.trim());
        }
    }
    notes
}

/// Rows of a table by line that are about a file whose path ends so, in whole names of folders.
pub(crate) fn of_file(rows: Vec<Value>, end: &str) -> Vec<Value> {
    let is_of_file = |row: &Value| {
        let file = row["name"].as_str().and_then(|name| name.rsplit_once(':')).map(|(file, _)| file);
        file.is_some_and(|file| Path::new(file).ends_with(end))
    };
    rows.into_iter().filter(is_of_file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_the_end_of_their_path() {
        let rows = || {
            vec![
                json!({"name": "/src/a/list.c:3"}),
                json!({"name": "/src/blist.c:4"}),
                json!({"name": "main+0x12"}),
            ]
        };
        let check = |end, expect: &[&str]| {
            let found: Vec<_> =
                of_file(rows(), end).iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
            assert_eq!(found, expect, "{end}");
        };
        check("list.c", &["/src/a/list.c:3"]);
        check("a/list.c", &["/src/a/list.c:3"]);
        check("/src/blist.c", &["/src/blist.c:4"]);
        check("c", &[]);
    }

    #[test]
    fn a_line_has_its_text_if_the_file_is_there() {
        let dir = std::env::temp_dir();
        let file = dir.join(format!("memtap-mcp-{}.c", std::process::id()));
        fs::write(&file, "int a;\n  a = 1;\n").unwrap();
        let name = file.display();
        let mut rows = [
            json!({"name": format!("{name}:2")}),
            json!({"name": format!("{name}:9")}),
            json!({"name": "/none.c:1"}),
        ];
        // The file itself stands for a trace that is as old.
        let notes = add_text(&mut rows, &file);
        fs::remove_file(&file).unwrap();
        assert_eq!(
            (&rows[0]["text"], &rows[1]["text"], &rows[2]["text"]),
            (&json!("a = 1;"), &Value::Null, &Value::Null)
        );
        assert_eq!(notes, ["/none.c is not there, or can't be read"]);
    }
}
