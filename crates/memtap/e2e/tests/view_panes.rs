//! Panes of `memtap view` that show time, in a browser: lanes of threads, and lifetimes of allocations.

use e2e::{TestProgram, ViewPage, hexadecimal};
use serde_json::{Value, json};

/// Three threads that lock a mutex and allocate a known number of times.
const WORKERS: &str = "\
#include <pthread.h>
#include <stdlib.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int counter;
static void *work(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) {
        int *block = malloc(1000);
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
        free(block);
    }
    return 0;
}
int main(void) {
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, work, (void *)(10 * (i + 1)));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return 0;
}
";

fn workers() -> ViewPage {
    let program = TestProgram::from_source("workers.c", WORKERS, &["-g", "-pthread"]);
    let mut page = ViewPage::of(program.record_by("translate").trace);
    page.choose("#axis", "cycles");
    page.settle();
    page
}

fn open(page: &mut ViewPage, pane: &str) {
    page.browser.click(&format!("#{pane} summary"));
    page.browser.wait(&format!("memtapView.{pane}.settled"));
}

fn settle(page: &mut ViewPage, pane: &str) {
    page.settle();
    page.browser.wait(&format!("memtapView.{pane}.settled"));
}

/// The numbers in a column of a pane, by the first word of each row.
fn column(page: &mut ViewPage, pane: &str, key: &str) -> Vec<u64> {
    let numbers = page.browser.value(&format!(
        "(() => {{ const column = [...document.querySelectorAll('#{pane} thead th')].findIndex(cell => cell.dataset.key === '{key}'); \
         return [...document.querySelectorAll('#{pane} tbody tr')].map(row => Number(row.children[column].innerText.replace(/\\D/g, ''))); }})()"
    ));
    numbers.as_array().expect("an array").iter().map(|number| number.as_u64().expect("a number")).collect()
}

/// In how many cycles a thread holds a lock, by its calls that lock and unlock: none is taken twice.
fn locked(events: &[Value], thread: u64) -> u64 {
    let (mut held, mut since, mut cycles) = (0, 0, 0);
    for event in events.iter().filter(|event| event["thread"] == thread && event["type"] == "sync") {
        let cycle = event["cycle"].as_u64().expect("a cycle");
        match event["kind"].as_str() {
            Some("lock") => {
                since = if held == 0 { cycle } else { since };
                held += 1;
            }
            Some("unlock") => {
                held -= 1;
                cycles += if held == 0 { cycle - since } else { 0 };
            }
            _ => {}
        }
    }
    cycles
}

#[test]
fn lanes_have_what_each_thread_did() {
    let mut page = workers();
    open(&mut page, "lanes");
    let events = page.trace.events();
    let count = |thread: u64, kinds: &[&str]| {
        let of = events.iter().filter(|event| event["thread"] == thread);
        of.filter(|event| kinds.iter().any(|kind| event["type"] == *kind)).count() as u64
    };
    let accesses: Vec<u64> = (0..3).map(|thread| count(thread, &["load", "store", "modify"])).collect();
    assert_eq!(column(&mut page, "lanes", "accesses"), accesses);
    assert_eq!(accesses.iter().sum::<u64>(), page.trace.number("accesses"));
    let allocated = column(&mut page, "lanes", "allocated");
    let makes = ["malloc", "calloc", "realloc", "mmap", "mremap"];
    assert_eq!(allocated, (0..3).map(|thread| count(thread, &makes)).collect::<Vec<_>>());
    // A lock and an unlock a round, a start and an end.
    let mut synchronised = column(&mut page, "lanes", "synchronised");
    // Which of them begins first differs.
    synchronised[1..].sort_unstable();
    assert!(synchronised[1] >= 20 && synchronised[2] >= 40, "{synchronised:?}");
    assert_eq!(
        column(&mut page, "lanes", "locked"),
        (0..3).map(|thread| locked(&events, thread)).collect::<Vec<_>>()
    );
    assert!(locked(&events, 1) > 0 && locked(&events, 2) > 0);
    // What is drawn has the figures of the rows, and words for who does not see it.
    let lane = page.browser.value(
        "(canvas => ({ label: canvas.getAttribute('aria-label'), role: canvas.getAttribute('role'), \
         drawn: new Set(new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, 10).data.buffer)).size }))\
         (document.querySelectorAll('#lanes canvas')[2])",
    );
    assert_eq!(lane["role"], "img");
    let label = lane["label"].as_str().expect("a label");
    assert!(
        label.starts_with("thread 2: accesses from about cycle")
            && label.contains("synchronisation")
            && label.contains("with a lock held"),
        "{label}"
    );
    assert!(lane["drawn"].as_u64() > Some(1), "{lane}");
    let drawn = page.browser.value(
        "[...document.querySelectorAll('#lanes canvas')].slice(0, 2).map(canvas => \
         new Set(new Uint32Array(canvas.getContext('2d').getImageData(0, 37, canvas.width, 5).data.buffer)).size > 1)",
    );
    assert_eq!(drawn, json!([locked(&events, 0) > 0, true]), "when a lock is held");
    // A click shows a thread alone, everywhere.
    page.browser.click("#lanes tbody tr:nth-child(2) button");
    settle(&mut page, "lanes");
    assert_eq!(column(&mut page, "lanes", "accesses"), [accesses[1]]);
    assert_eq!(page.table()[..3].iter().sum::<u64>(), accesses[1]);
    page.quiet();
}

#[test]
fn lanes_and_lifetimes_follow_the_selection_and_the_address_keeps_them_open() {
    let mut page = ViewPage::of(TestProgram::named("heap.c").record_by("translate").trace);
    open(&mut page, "lanes");
    let (from, to) = (page.point(0.3, 0.02), page.point(0.8, 0.98));
    page.browser.drag(from, to, true);
    settle(&mut page, "lanes");
    let selected = page.selection();
    let part = |by: &str, page: &ViewPage| page.report_of(selected, by)[..3].iter().sum::<u64>();
    assert_eq!(column(&mut page, "lanes", "accesses").iter().sum::<u64>(), part("thread", &page));
    open(&mut page, "lifetimes");
    page.browser.wait("location.hash.includes('open=lanes,lifetimes')");
    let lived = |page: &mut ViewPage| {
        let starts = page
            .browser
            .value("memtapView.lifetimes.answer.blocks.map(block => [block.start, block.bytes, block.from])");
        let mut blocks: Vec<String> =
            starts.as_array().expect("an array").iter().map(Value::to_string).collect();
        blocks.sort();
        blocks
    };
    let blocks = lived(&mut page);
    let expected = page.viewer.json(&format!(
        "blocks?from={}&to={}&low={:#x}&high={:#x}",
        selected.from, selected.to, selected.low, selected.high
    ));
    let mut expected: Vec<String> = expected["blocks"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|block| json!([block["start"], block["bytes"], block["from"]]).to_string())
        .collect();
    expected.sort();
    assert_eq!(blocks, expected);
    page.browser.reload();
    settle(&mut page, "lifetimes");
    page.browser.wait("memtapView.lanes.settled");
    assert_eq!((lived(&mut page), page.selection()), (blocks, selected));
    page.quiet();
}

#[test]
fn lifetimes_are_bars_and_a_click_selects_the_block() {
    let mut page = ViewPage::of(TestProgram::named("heap.c").record_by("translate").trace);
    open(&mut page, "lifetimes");
    let sizes = column(&mut page, "lifetimes", "bytes");
    assert!(sizes.len() > 3 && sizes.is_sorted_by(|a, b| a >= b), "the largest first: {sizes:?}");
    let events = page.trace.events();
    let malloc = events.iter().find(|event| event["type"] == "malloc" && event["size"] == 80);
    let malloc = malloc.expect("by_malloc allocates it");
    let free = events
        .iter()
        .skip_while(|event| *event != malloc)
        .find(|event| event["type"] == "free" && event["addr"] == malloc["addr"])
        .expect("by_malloc frees it");
    let row = format!(
        "[...document.querySelectorAll('#lifetimes tbody tr')][memtapView.lifetimes.table.sorted().findIndex(block => block.from === {})]",
        malloc["cycle"]
    );
    let said = page.browser.value(&format!(
        "(row => ({{ name: row.querySelector('button').innerText, line: row.querySelector('.faint').innerText, label: row.querySelector('.life').getAttribute('aria-label'), \
         left: parseFloat(row.querySelector('.life div').style.left) }}))({row})"
    ));
    let name = said["name"].as_str().expect("a name");
    assert!(name.starts_with("<malloc@by_malloc+"), "{name}");
    assert!(said["line"].as_str().is_some_and(|line| line.contains("heap.c:")), "{said}");
    let label: String =
        said["label"].as_str().expect("a label").chars().filter(char::is_ascii_digit).collect();
    assert_eq!(label, format!("{}{}", malloc["cycle"], free["cycle"]));
    let end = page.browser.value("memtapView.map.bounds.to").as_f64().expect("a number");
    let left = 100.0 * malloc["cycle"].as_f64().expect("a number") / end;
    assert!((said["left"].as_f64().expect("a number") - left).abs() < 1.0, "{said}: {left}");
    page.browser.value(&format!("{row}.querySelector('button').click()"));
    settle(&mut page, "lifetimes");
    let selected = page.selection();
    let start = hexadecimal(&malloc["addr"]);
    assert_eq!((selected.low, selected.high), (start, start + 80));
    assert_eq!((json!(selected.from), json!(selected.to)), (malloc["cycle"].clone(), free["cycle"].clone()));
    page.quiet();
}

#[test]
fn blocks_that_nobody_released_are_counted() {
    let source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 30; i++) { \
                  char *volatile block = malloc(100); block[0] = 1; if (i % 10) free(block); } return 0; }";
    let program = TestProgram::from_source("unreleased.c", source, &["-g"]);
    let mut page = ViewPage::of(program.record_by("translate").trace);
    open(&mut page, "lifetimes");
    let said = page.browser.text("#lifetimes .covers").replace(['\u{202f}', '\u{a0}'], " ");
    assert!(said.contains("Of 3 blocks of 300 B no release was recorded."), "{said}");
    let of_them = page.browser.value(
        "[...document.querySelectorAll('#lifetimes tbody tr')].filter(row => row.innerText.includes('none seen')).length",
    );
    assert_eq!(of_them, 3);
    page.quiet();
}
