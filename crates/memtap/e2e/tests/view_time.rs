//! The axis of time of `memtap view`, which all threads share.

use e2e::{TestProgram, Trace, ViewPage, Viewer, hexadecimal};
use serde_json::{Value, json};

/// A thread that is over before another one begins; each fills an array. A third one waits for a lock while the second works.
const ONE_AFTER_THE_OTHER: &str = "\
#include <pthread.h>
#include <stdlib.h>
int first[1000], second[1000], third[1000];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *fill(void *array) {
    for (int i = 0; i < 1000; i++)
        ((volatile int *)array)[i] = i;
    free(malloc(100));
    return 0;
}
static void *wait(void *array) {
    pthread_mutex_lock(&mutex);
    fill(array);
    pthread_mutex_unlock(&mutex);
    return 0;
}
int main(void) {
    pthread_t thread, waiting;
    pthread_create(&thread, 0, fill, first);
    pthread_join(thread, 0);
    pthread_mutex_lock(&mutex);
    pthread_create(&waiting, 0, wait, third);
    pthread_create(&thread, 0, fill, second);
    pthread_join(thread, 0);
    pthread_mutex_unlock(&mutex);
    pthread_join(waiting, 0);
    return 0;
}
";

fn trace() -> Trace {
    let program = TestProgram::from_source("one_after_the_other.c", ONE_AFTER_THE_OTHER, &["-g", "-pthread"]);
    program.record_by("translate").trace
}

/// The first store to a variable, and the last one.
fn stores(viewer: &Viewer, name: &str) -> [Value; 2] {
    let place = viewer.json(&format!("place?name={name}"))["found"][0].clone();
    let start = hexadecimal(&place["start"]);
    let end = start + place["bytes"].as_u64().expect("a number");
    let part = format!("axis=time&low={start:#x}&high={end:#x}&what=stores");
    [viewer.json(&format!("access?{part}")), viewer.json(&format!("access?{part}&way=previous"))]
        .map(|answer| answer["found"].clone())
}

#[test]
fn threads_are_in_the_order_in_which_they_ran() {
    let viewer = Viewer::of(&trace().path);
    let [first, second, third] = ["first", "second", "third"].map(|name| stores(&viewer, name));
    let at = |found: &Value| found["at"].as_u64().expect("a time");
    for stores in [&first, &second, &third] {
        assert!(at(&stores[0]) <= at(&stores[1]), "{stores:?}");
    }
    // What comes first is told by who waits for whom, however long the recorder took to store it.
    assert!(
        at(&first[1]) <= at(&second[0]) && at(&first[1]) <= at(&third[0]),
        "{first:?} {second:?} {third:?}"
    );
    assert!(at(&second[1]) <= at(&third[0]), "{second:?} {third:?}");
    assert_ne!(first[0]["thread"], second[0]["thread"]);
}

#[test]
fn a_stretch_of_time_has_the_same_accesses_everywhere() {
    let trace = trace();
    let viewer = Viewer::of(&trace.path);
    let facts = viewer.json("trace");
    let times = facts["processes"][0]["times"].clone();
    let [begin, end] = [0, 1].map(|side| times[side].as_u64().expect("a time"));
    let sum = |table: &Value| -> u64 {
        ["loads", "stores", "modifies"]
            .iter()
            .map(|key| table["total"][key].as_u64().expect("a number"))
            .sum()
    };
    for threads in ["", "&thread=0", "&thread=1", "&thread=2", "&thread=3"] {
        let mut all = 0;
        for part in 0..6 {
            let edge = |part: u64| begin + (end - begin) * part / 6;
            let window = format!("axis=time&from={}&to={}{threads}", edge(part), edge(part + 1));
            let tile = viewer.tile(&format!("{window}&width=1&height=1")).sum();
            for by in ["variable", "function", "thread", "page"] {
                assert_eq!(sum(&viewer.json(&format!("table?by={by}&{window}"))), tile, "{window} {by}");
            }
            let lanes = viewer.json(&format!("lanes?{window}&width=10"));
            let lanes = lanes["lanes"].as_array().expect("an array").iter();
            let in_lanes = lanes.flat_map(|lane| lane["accesses"].as_array().expect("an array").clone());
            assert_eq!(
                in_lanes.map(|count| count.as_u64().expect("a number")).sum::<u64>(),
                tile,
                "{window}"
            );
            all += tile;
        }
        let thread = threads.trim_start_matches("&thread=").parse::<u64>().ok();
        let of_stat = match thread {
            None => trace.number("accesses"),
            Some(thread) => trace
                .events()
                .iter()
                .filter(|event| {
                    event["thread"] == thread
                        && ["load", "store", "modify"].iter().any(|kind| event["type"] == *kind)
                })
                .count() as u64,
        };
        assert_eq!(all, of_stat, "{threads}");
    }
    for wrong in ["axis=wall", "axis=time&from=5&to=5"] {
        assert_eq!(viewer.get(&format!("tile?{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn the_page_shows_several_threads_in_time_and_keeps_what_was_chosen() {
    let mut page = ViewPage::of(trace());
    let axis = |page: &mut ViewPage| page.browser.value("memtapView.map.moments.name");
    assert_eq!(axis(&mut page), "time");
    let whole = page.table();
    assert_eq!(whole[..3].iter().sum::<u64>(), page.trace.number("accesses"));
    // A click finds what is counted there, and the words say when that was.
    page.browser.key("/");
    page.browser.write("second");
    page.browser.key("Enter");
    page.settle();
    let selected = page.selection();
    assert_eq!(selected.high - selected.low, 4000);
    assert!(page.table()[1] >= 1000);
    page.browser.key("z");
    page.settle();
    let (from, to) = (page.point(0.3, 0.02), page.point(0.8, 0.98));
    page.browser.drag(from, to, true);
    page.settle();
    page.browser.wait("location.hash.includes('selected-time=')");
    let (selected, table) = (page.selection(), page.table());
    page.browser.reload();
    page.settle();
    assert_eq!((page.selection(), page.table()), (selected, table));
    page.browser.click("#lanes summary");
    page.browser.wait("memtapView.lanes.settled && memtapView.lanes.answer");
    let first = page.browser.text("#lanes thead");
    assert!(first.contains("about") && first.contains("time locked"), "{first}");
    // Each thread's own clock is a choice.
    page.choose("#axis", "cycles");
    page.settle();
    assert_eq!(axis(&mut page), "cycles");
    assert_eq!(page.browser.value("memtapView.map.selection"), json!(null));
    page.browser.wait("location.hash.includes('axis=cycles')");
    page.browser.reload();
    page.settle();
    assert_eq!(axis(&mut page), "cycles");
    // Addresses that were kept before there was a choice have cycles.
    page.browser.value("(() => { location.hash = '#cycles=10-500'; })()");
    page.settle();
    assert_eq!(axis(&mut page), "cycles");
    assert_eq!(
        page.browser.value("[memtapView.map.window.from, memtapView.map.window.to]"),
        json!([10, 500])
    );
    page.quiet();
}

#[test]
fn colours_of_threads_are_of_those_with_most_of_a_cell() {
    let trace = trace();
    let viewer = Viewer::of(&trace.path);
    for axis in ["axis=time", "axis=cycles"] {
        let tile = |options: &str| viewer.tile(&format!("{axis}&width=40&height=30{options}"));
        let plain = tile("");
        let colored = tile("&colors=threads");
        assert_eq!((&colored.counts, plain.threads.len()), (&plain.counts, 0));
        let threads = colored.facts["threads"].as_array().expect("an array").clone();
        assert_eq!(threads.len(), 4);
        let of_threads: Vec<Vec<u32>> =
            threads.iter().map(|thread| tile(&format!("&thread={thread}")).counts).collect();
        for (cell, number) in colored.threads.iter().enumerate() {
            let counts: Vec<u32> = of_threads.iter().map(|counts| counts[cell]).collect();
            assert_eq!(counts.iter().sum::<u32>(), plain.counts[cell], "{axis} {cell}");
            let most =
                counts.iter().position(|count| *count > 0 && counts.iter().all(|other| other <= count));
            assert_eq!(*number, most.map_or(u8::MAX, |most| most as u8), "{axis} {cell}: {counts:?}");
        }
    }
    assert_eq!(viewer.get("tile?colors=red").status, 400);
    let mut page = ViewPage::at(viewer, trace);
    page.choose("#run .coloring", "threads");
    page.settle();
    page.browser.wait("memtapView.map.tile?.threads");
    let legend = page.browser.text("#run .legend");
    assert!((0..4).all(|thread| legend.contains(&format!("thread {thread}"))), "{legend}");
    page.browser.wait("location.hash.includes('colors=threads')");
    page.browser.reload();
    page.settle();
    assert_eq!(page.browser.value("memtapView.map.tile.threads !== null"), true);
    page.quiet();
}
