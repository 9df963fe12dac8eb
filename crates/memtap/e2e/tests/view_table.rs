//! The table beside the map, and what a newcomer sees first, in a browser.

use e2e::{TestProgram, ViewPage, hexadecimal};
use serde_json::{Value, json};

fn heap() -> ViewPage {
    ViewPage::of(TestProgram::named("heap.c").record_by("translate").trace)
}

/// The names of the rows.
fn names(page: &mut ViewPage) -> Vec<String> {
    let names =
        page.browser.value("[...document.querySelectorAll('#pane tbody th')].map(cell => cell.innerText)");
    names.as_array().expect("an array").iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
}

#[test]
fn rows_of_the_loader_are_one_until_they_are_asked_for() {
    let mut page = heap();
    page.settle();
    let is_folded = |name: &String| name.starts_with("[dynamic loader]");
    let all = page.report(&["--by", "variable"]);
    let folded = names(&mut page);
    assert_eq!(folded.iter().filter(|name| is_folded(name)).count(), 1, "{folded:?}");
    assert_eq!(page.table(), all);
    // What is searched for is found among them.
    let of_loader =
        page.browser.value("memtapView.pane.answer.rows.find(row => row.owner === 'linker').name");
    let of_loader = of_loader.as_str().expect("a name").to_owned();
    page.browser.value(&format!(
        "(() => {{ const search = document.querySelector('#pane .search'); search.value = '{of_loader}'; search.dispatchEvent(new Event('input')); }})()"
    ));
    assert!(names(&mut page).iter().any(|name| name.starts_with(&of_loader)), "{of_loader}");
    page.browser.value(
        "(() => { const search = document.querySelector('#pane .search'); search.value = ''; search.dispatchEvent(new Event('input')); })()",
    );
    assert_eq!(names(&mut page), folded);
    page.browser.value(
        "[...document.querySelectorAll('#pane tbody th')].find(cell => cell.innerText.startsWith('[dynamic loader]')).querySelector('button').click()",
    );
    let unfolded = names(&mut page);
    assert!(unfolded.len() > folded.len() && !unfolded.iter().any(is_folded), "{unfolded:?}");
    assert_eq!(page.table(), all);
    page.quiet();
}

#[test]
fn a_count_can_be_cancelled_and_begun_again() {
    let mut page = heap();
    page.settle();
    // In one go, so that no answer can come between.
    page.browser.value(
        "(() => { const pane = memtapView.pane; pane.stale = true; pane.ask(); document.querySelector('#pane .cancel').click(); })()",
    );
    let state = "({ words: document.querySelector('#pane .covers').innerText, \
                  count: document.querySelector('#pane .count').hidden, cancel: document.querySelector('#pane .cancel').hidden })";
    let said = page.browser.value(state);
    assert!(said["words"].as_str().is_some_and(|words| words.ends_with("cancelled.")), "{said}");
    assert_eq!((&said["count"], &said["cancel"]), (&json!(false), &json!(true)));
    page.browser.click("#pane .count");
    page.browser.wait("memtapView.pane.settled");
    assert_eq!(page.table(), page.report(&["--by", "variable"]));
    // Nobody waits any more, and nobody else is cancelled.
    assert_eq!(page.viewer.json("progress?asker=1"), json!({"counted": null}));
    assert_eq!(page.viewer.json("cancel?asker=1"), json!({}));
    assert_eq!(page.viewer.get("progress").status, 400);
    page.quiet();
}

#[test]
fn colours_follow_counts_or_their_logarithms_and_the_address_keeps_it() {
    let mut page = heap();
    page.settle();
    let drawn = "(tile => { const image = tile.image; \
                  return [...new Uint32Array(image.getContext('2d').getImageData(0, 0, image.width, image.height).data.buffer)]\
                  .reduce((sum, pixel) => (sum * 31 + pixel) % 1000003, 0); })(memtapView.map.tile)";
    let logarithmic = page.browser.value(drawn);
    page.browser.value(
        "(() => { const scaling = document.querySelector('.scaling'); scaling.value = 'linear'; scaling.dispatchEvent(new Event('change')); })()",
    );
    let linear = page.browser.value(drawn);
    assert_ne!(linear, logarithmic);
    page.browser.wait("location.hash.includes('scale=linear')");
    page.browser.reload();
    page.settle();
    assert_eq!(page.browser.value("memtapView.map.isLinear"), true);
    assert_eq!(page.browser.value("document.querySelector('.scaling').value"), "linear");
    page.quiet();
}

#[test]
fn the_hint_stays_away_once_it_is_closed() {
    let mut page = heap();
    page.settle();
    let hidden = "document.querySelector('#hint').hidden";
    assert_eq!(page.browser.value(hidden), false);
    page.browser.click("#hint .close");
    assert_eq!(page.browser.value(hidden), true);
    page.browser.reload();
    page.settle();
    assert_eq!(page.browser.value(hidden), true);
    page.quiet();
}

/// It accesses memory, sleeps for three tenths of a second, and accesses memory again.
const SLEEPER: &str = "\
#include <time.h>
static volatile int counter;
int main(void) {
    for (int i = 0; i < 1000; i++) counter++;
    struct timespec long_enough = {0, 300000000};
    nanosleep(&long_enough, 0);
    for (int i = 0; i < 1000; i++) counter++;
    return 0;
}
";

fn sleeper() -> TestProgram {
    TestProgram::from_source("sleeper.c", SLEEPER, &["-g"])
}

#[test]
fn cycles_of_one_thread_have_times() {
    let trace = sleeper().record_by("translate").trace;
    let mut page = ViewPage::of(trace);
    let times = page.browser.value("(({ clock, bounds }) => [clock.at(bounds.from), clock.at((bounds.from + bounds.to) / 2), clock.at(bounds.to)])(memtapView.map)");
    let [first, middle, last] = [0, 1, 2].map(|at| times[at].as_f64().expect("a number"));
    assert!(first >= 0.0 && first <= middle && middle <= last, "{times}");
    assert!(last - first >= 3e8, "it slept: {times}");
    page.quiet();
}

#[test]
fn frames_that_begin_when_the_recorder_saw_them_give_no_times() {
    let by_pages = sleeper().record_by("protect");
    let by_another_encoder = sleeper().record_with("translate", &["--encoder=live"]);
    for trace in [by_pages.trace, by_another_encoder.trace] {
        let mut page = ViewPage::of(trace);
        assert_eq!(page.browser.value("memtapView.map.clock"), json!(null));
        page.quiet();
    }
}

#[test]
fn cycles_of_several_threads_have_no_times() {
    let mut page = ViewPage::of(TestProgram::named("threads.c").record_by("translate").trace);
    page.settle();
    page.choose("#axis", "cycles");
    page.settle();
    assert_eq!(page.browser.value("memtapView.map.clock"), json!(null));
    page.choose("#thread", "1");
    page.settle();
    assert_eq!(page.browser.value("memtapView.map.clock === null"), false);
    page.quiet();
}

#[test]
fn findings_are_those_of_the_commands_and_lead_to_their_lines() {
    let recording = TestProgram::named("errors/kinds.cpp").record_by("translate");
    let mut page = ViewPage::of(recording.trace);
    let printed = |page: &ViewPage, command: &str| {
        let outcome = page.trace.ask(command, &["--json"]);
        serde_json::from_str::<Value>(&outcome.out())
            .unwrap_or_else(|_| panic!("{command}: {}", outcome.err()))
    };
    for kind in ["errors", "race", "lines"] {
        let found = page.viewer.json(&format!("findings?kind={kind}"));
        assert_eq!((&found["rows"], &found["kind"]), (&printed(&page, kind), &json!(kind)));
    }
    assert_eq!(page.viewer.get("findings?kind=colours").status, 400);
    page.browser.click("#findings summary");
    page.browser.wait("memtapView.findings.settled");
    let errors = printed(&page, "errors");
    let rows = page.browser.value("document.querySelectorAll('#findings tbody tr').length");
    assert_eq!(rows.as_u64(), errors.as_array().map(|errors| errors.len() as u64));
    // Those whose place is known are marked on the map while they are looked at.
    let placed =
        errors.as_array().into_iter().flatten().filter(|error| error["first_seen"].is_object()).count();
    assert!(placed > 0);
    assert_eq!(page.browser.value("memtapView.map.marks.length"), placed);
    // From a finding to its line.
    page.browser.click("#findings tbody td button.link");
    page.browser
        .wait("!document.querySelector('#source').hidden && document.querySelector('#source .wanted')");
    assert!(page.browser.text("#source .named").ends_with("kinds.cpp"));
    // From a finding to its place on the map, where the access is.
    let is_access =
        |error: &&Value| error["kind"] == "out_of_bounds" && error["first_seen"]["cycle"].is_u64();
    let error = errors.as_array().into_iter().flatten().find(is_access).expect("there is one");
    let first = error["first_seen"].clone();
    let place = page.browser.value(&format!(
        "memtapView.findings.table.sorted().findIndex(row => row.at?.start === {} && row.at.cycle === {})",
        first["addr"], first["cycle"]
    ));
    let row = place.as_u64().expect("it has a row") + 1;
    page.browser.click(&format!("#findings tbody tr:nth-child({row}) th button.link"));
    page.settle();
    let (selected, start) = (page.selection(), hexadecimal(&first["addr"]));
    assert_eq!((selected.low, selected.high), (start, start + error["bytes"].as_u64().expect("a number")));
    assert_eq!((json!(selected.from), selected.to), (first["cycle"].clone(), selected.from + 1));
    assert_eq!(page.table()[..3].iter().sum::<u64>(), 1, "one access is selected");
    page.quiet();
}

#[test]
fn types_are_those_of_layout_with_their_fields_on_cache_lines() {
    let mut page = heap();
    let printed = page.trace.ask("layout", &["--json"]);
    let layout: Value = serde_json::from_str(&printed.out()).expect("JSON");
    assert_eq!(page.viewer.json("findings?kind=layout")["rows"], layout);
    page.browser.click("#types summary");
    page.browser.wait("memtapView.types.settled && document.querySelector('#types .strip')");
    let rows = page.browser.value("document.querySelectorAll('#types tbody tr').length");
    let types = layout.as_array().expect("an array");
    assert_eq!(rows.as_u64(), Some(types.len() as u64));
    assert!(!types.is_empty());
    for (place, _) in types.iter().enumerate() {
        page.browser.click(&format!("#types tbody tr:nth-child({}) button.link", place + 1));
        let name = page.browser.value("memtapView.types.drawn.type");
        let one = types.iter().find(|one| one["type"] == name).expect("it is one of them");
        let drawn = page.browser.value(
            "[...document.querySelectorAll('#types .strip div:not(.hole)')].map(piece => piece.textContent)",
        );
        let drawn: Vec<&str> = drawn.as_array().expect("an array").iter().filter_map(Value::as_str).collect();
        for field in one["fields"].as_array().expect("an array") {
            let (offset, name) = (field["offset"].as_u64(), field["name"].as_str().expect("a name"));
            assert!(offset >= Some(16 * 64) || drawn.contains(&name), "{name} is not among {drawn:?}");
        }
        assert!(page.browser.text("#types .lines").contains("cache line"));
    }
    page.quiet();
}

#[test]
fn what_is_read_so_far_is_drawn_while_the_index_is_built() {
    let mut page = heap();
    let drawn = page.browser.value(
        "import('./sketch.js').then(({ drawSketch }) => { \
         const canvas = document.body.appendChild(document.createElement('canvas')); canvas.className = 'map'; \
         const rows = [{ address: '0x1000', counts: [5, 0] }, { address: '0x7ffff0000000', counts: [0, 1] }]; \
         const words = drawSketch(canvas, { columns: 2, rows, accesses: 6 }); \
         const { width, data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); \
         const at = (x, y) => { const [column, row] = [130 + (canvas.clientWidth - 136) * x, 6 + (canvas.clientHeight - 12) * y].map((place) => Math.floor(place * devicePixelRatio)); \
         return data.slice(4 * (row * width + column), 4 * (row * width + column) + 4).join(); }; \
         const places = [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]].map(([x, y]) => at(x, y)); \
         canvas.remove(); return [words, places]; })",
    );
    assert_eq!(drawn[0], "6 accesses");
    let [many, none, none_either, one] = [0, 1, 2, 3].map(|at| drawn[1][at].as_str().expect("a colour"));
    assert_eq!(none, none_either);
    assert!(many != none && one != none && many != one, "{drawn}");
    page.quiet();
}

/// Blocks of a type, and functions whose names differ at their ends alone.
const PLAYERS: &str = "\
#include <memory>
namespace a_name_space_with_a_long_name { namespace and_one_within_it {
struct Player { long score[8]; };
template <class T> struct table_of_players_and_others {
    __attribute__((noinline)) static void sum_of_scores_first(T *player) { for (int i = 0; i < 8; i++) ((volatile long *)player->score)[i]++; }
    __attribute__((noinline)) static void sum_of_scores_second(T *player) { for (int i = 0; i < 8; i++) ((volatile long *)player->score)[i]++; }
};
} }
using namespace a_name_space_with_a_long_name::and_one_within_it;
struct Owned { long score; };
int main() {
    for (int i = 0; i < 3; i++) {
        Player *player = new Player();
        table_of_players_and_others<Player>::sum_of_scores_first(player);
        table_of_players_and_others<Player>::sum_of_scores_second(player);
    }
    volatile long sums[2] = {0, 0}; auto owned = std::make_unique<Owned>();
    *(volatile long *)&owned->score = sums[0]++;
    return *(volatile long *)&owned->score;
}
";

#[test]
fn rows_are_named_as_report_names_them_and_long_names_lose_their_middle() {
    let mut page =
        ViewPage::of(TestProgram::from_source("players.cpp", PLAYERS, &["-g"]).record_by("translate").trace);
    let shown = names(&mut page);
    let blocks = shown.iter().find(|name| name.starts_with("Player at ")).expect("they have one row");
    assert!(blocks.ends_with("-players.cpp:13"), "{blocks}: nothing but its name");
    // Not the line of the header that allocates.
    assert!(
        shown.iter().any(|name| name.starts_with("Owned at ") && name.ends_with("-players.cpp:17")),
        "{shown:?}"
    );
    assert!(shown.iter().any(|name| name.starts_with("main::sums")), "{shown:?}");
    // As wide as the name is, a terminal is not.
    let printed = page.trace.ask("report", &["--by", "variable"]).out();
    let is_that = |line: &str| line.contains("Player at ") && line.ends_with("players.cpp:13");
    assert_eq!(printed.lines().filter(|line| is_that(line)).count(), 1, "{printed}");
    page.choose("#by", "function");
    page.settle();
    let called = page.browser.value(
        "[...document.querySelectorAll('#pane tbody th span[title]')].map(({ innerText, title }) => [innerText, title]) \
         .filter(([, title]) => title.includes('sum_of_scores')).sort(([, a], [, b]) => (a < b ? -1 : 1))",
    );
    let called: Vec<[&str; 2]> = called
        .as_array()
        .expect("an array")
        .iter()
        .map(|pair| [0, 1].map(|at| pair[at].as_str().expect("a text")))
        .collect();
    let [[first, whole], [second, _]] = called.as_slice() else { panic!("two functions: {called:?}") };
    for (name, end) in [(first, "_first(\u{2026})"), (second, "_second(\u{2026})")] {
        let is_short = name.chars().count() <= 64 && name.contains("\u{2026}");
        assert!(is_short && name.starts_with("a_name_space") && name.ends_with(end), "{name}");
    }
    assert!(whole.starts_with("a_name_space_with_a_long_name::and_one_within_it::table_of"), "{whole}");
    page.quiet();
}
