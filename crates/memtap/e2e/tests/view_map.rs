//! What stands beside the map of `memtap view`, and which memory it shows, in a browser.

use e2e::{TestProgram, ViewPage};
use serde_json::{Value, json};

/// It uses the C++ library, which has more regions than there is room for beside a small map.
const STREAMS: &str = "\
#include <iostream>
#include <sstream>
int main() {
    std::ostringstream out;
    for (int i = 0; i < 100; i++) out << i << ' ' << i / 3.0;
    return out.str().empty();
}
";

fn streams() -> ViewPage {
    ViewPage::of(TestProgram::from_source("streams.cpp", STREAMS, &[]).record_by("translate").trace)
}

/// The labels that are drawn: their names and heights, from the top.
fn labels(page: &mut ViewPage) -> Vec<(String, f64)> {
    let drawn = page.browser.value("memtapView.map.labels.map(({ name, y }) => [name, y])");
    let label =
        |label: &Value| (label[0].as_str().expect("a name").to_owned(), label[1].as_f64().expect("a number"));
    drawn.as_array().expect("an array").iter().map(label).collect()
}

#[test]
fn the_programs_own_memory_has_labels_whatever_libraries_there_are() {
    let mut page = streams();
    for (width, height) in [(1280, 720), (2560, 1440), (700, 500)] {
        page.browser.size(width, height);
        page.settle();
        let labels = labels(&mut page);
        let has = |name: &str| labels.iter().any(|(label, _)| label.ends_with(name));
        for own in ["-streams", "[heap]", "[stack]"] {
            assert!(has(own), "{own} at {width} x {height}: {labels:?}");
        }
        let apart = |pair: &[(String, f64)]| pair[1].1 - pair[0].1 > 13.9;
        assert!(labels.windows(2).all(apart), "they do not overlap at {width} x {height}: {labels:?}");
        let floor = page.browser.value("memtapView.map.plot.y + memtapView.map.plot.height");
        assert!(labels.iter().all(|(_, y)| Some(y + 12.0) <= floor.as_f64()), "{labels:?} above {floor}");
    }
    page.quiet();
}

#[test]
fn neighbours_of_one_name_have_one_label() {
    let mut page = streams();
    let groups = page.browser.value(
        "import(new URL('labels.js', location.href).href).then(({ groupsOf }) => groupsOf([ \
         { name: 'a', kind: 'data', at: 0, units: 5 }, { name: 'a', kind: 'bss', at: 5, units: 5 }, \
         { name: '[heap]', kind: 'heap', at: 10, units: 2 }, { name: '[heap]', kind: 'heap', at: 12, units: 3 }, \
         { name: 'b.so', kind: 'data', at: 15, units: 5 }, \
         { name: '[anon]', kind: 'anon', at: 20, units: 5 }, { name: 'a', kind: 'bss', at: 25, units: 5 }], 'a'))",
    );
    assert_eq!(
        groups,
        json!([
            {"name": "a", "kinds": ["data", "bss"], "isOwn": true, "at": 0, "end": 10},
            {"name": "[heap]", "kinds": [], "isOwn": true, "at": 10, "end": 15},
            {"name": "b.so", "kinds": ["data"], "isOwn": false, "at": 15, "end": 20},
            {"name": "[anon]", "kinds": [], "isOwn": false, "at": 20, "end": 25},
            {"name": "a", "kinds": ["bss"], "isOwn": true, "at": 25, "end": 30},
        ])
    );
    let names: Vec<String> = labels(&mut page).into_iter().map(|(name, _)| name).collect();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    page.quiet();
}

#[test]
fn memory_of_memtap_is_hidden_until_it_is_asked_for() {
    let mut page = streams();
    let all = page.trace.number("accesses");
    let sum = |page: &mut ViewPage| page.browser.value("memtapView.map.tile.facts.sum").as_u64();
    let kinds = "memtapView.map.axis.runs.filter(run => run.name.startsWith('libmemtap_')).length";
    let whole = page.table();
    assert_eq!(page.browser.value(kinds), 0);
    let hidden = sum(&mut page).expect("a number");
    assert_eq!(page.table()[..3].iter().sum::<u64>(), all, "the table has all of it");
    page.browser.click("#tracer");
    page.settle();
    assert!(page.browser.value(kinds).as_u64() > Some(0));
    assert_eq!(sum(&mut page), Some(all));
    assert!(hidden < all, "{hidden}");
    assert_eq!(page.table(), whole);
    page.browser.wait("location.hash.includes('tracer=shown')");
    page.browser.reload();
    page.settle();
    assert_eq!(page.browser.value("document.querySelector('#tracer').checked"), true);
    assert_eq!(sum(&mut page), Some(all));
    // What is selected stays where it is.
    let (from, to) = (page.point(0.2, 0.1), page.point(0.7, 0.4));
    page.browser.drag(from, to, true);
    page.settle();
    let selected = page.selection();
    page.browser.click("#tracer");
    page.settle();
    assert_eq!((page.selection(), page.browser.value(kinds)), (selected, json!(0)));
    page.browser.wait("!location.hash.includes('tracer')");
    page.quiet();
}
