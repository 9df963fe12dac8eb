//! `memtap view` in a browser, used as a person would: its panes have the figures
//! of the other commands, and the mouse and the keys do what the guide says.

use e2e::{TestProgram, Trace, ViewPage, hexadecimal, repository};
use serde_json::{Value, json};

fn heap() -> ViewPage {
    ViewPage::of(TestProgram::named("heap.c").record_by("translate").trace)
}

#[test]
fn the_table_of_the_whole_run_is_that_of_report() {
    let mut page = heap();
    for by in ["variable", "function", "thread", "region"] {
        page.browser.value(&format!(
            "(() => {{ const by = document.querySelector('#by'); by.value = '{by}'; by.dispatchEvent(new Event('change')); }})()"
        ));
        page.settle();
        assert_eq!(page.table(), page.report(&["--by", by]), "{by}");
    }
    let all = page.trace.number("accesses");
    let digits: String = page.browser.text("#pane .covers").chars().filter(char::is_ascii_digit).collect();
    assert!(digits.starts_with(&all.to_string()), "{digits} are not {all} accesses");
    page.quiet();
}

#[test]
fn what_is_drawn_adds_up_to_stat_at_every_zoom_level() {
    let mut page = heap();
    // With memtap's library, which the loader reads.
    page.browser.click("#tracer");
    page.settle();
    let all = page.trace.number("accesses");
    for (across, down) in [(1u32, 1u32), (2, 1), (1, 3), (4, 4)] {
        let mut sum = 0;
        for part in 0..across * down {
            let (column, row) = (part % across, part / across);
            page.browser.value(&format!(
                "(() => {{ const {{ map }} = memtapView, {{ from, to, bottom }} = map.bounds; \
                 const cut = (part, parts, low, high) => low + Math.floor((high - low) * part / parts); \
                 const place = row => map.axis.place(map.axis.address(cut(row, {down}, 0, bottom))); \
                 map.move({{ from: cut({column}, {across}, from, to), to: cut({column} + 1, {across}, from, to), \
                 top: place({row}), bottom: place({row} + 1) }}); }})()"
            ));
            page.browser.wait("memtapView.map.settled");
            // The server's own sum, and that of what is drawn.
            let sums = page.browser.value(
                "[memtapView.map.tile.facts.sum, memtapView.map.tile.counts.reduce((a, b) => a + b, 0)]",
            );
            assert_eq!(sums[0], sums[1]);
            sum += sums[0].as_u64().expect("a number");
        }
        assert_eq!(sum, all, "{across} x {down}");
    }
    page.quiet();
}

/// An answer that comes after the window has moved on is shown, and is not taken for that of the new window.
#[test]
fn an_answer_of_the_window_before_does_not_settle_the_new_one() {
    let mut page = heap();
    let settled = page.browser.value(
        "(async () => { const { map } = memtapView, { from, to, top, bottom } = map.bounds, asks = map.fetchTile; \
         const half = from + Math.floor((to - from) / 2); let answer; \
         const asked = new Promise((asked) => { map.fetchTile = async (...what) => { \
         const tile = await asks(...what); asked(); await new Promise((answered) => { answer = answered; }); return tile; }; }); \
         map.move({ from, to: half, top, bottom }, 0); await asked; map.fetchTile = asks; \
         map.move({ from: half, to, top, bottom }, 1000); \
         const painted = new Promise((painted) => map.addEventListener('painted', painted, { once: true })); \
         answer(); await painted; return map.settled; })()",
    );
    assert_eq!(settled, false);
    page.browser.wait("memtapView.map.settled");
    page.quiet();
}

#[test]
fn a_drag_selects_and_the_address_keeps_it() {
    let mut page = heap();
    let (from, to) = (page.point(0.2, 0.05), page.point(0.7, 0.9));
    page.browser.drag(from, to, true);
    page.settle();
    let selected = page.selection();
    let table = page.table();
    assert_eq!(table, page.report_of(selected, "variable"));
    let whole = page.report(&["--by", "variable"]);
    assert!(table[0] > 0 && table[0] < whole[0], "{table:?} of {whole:?}");
    let address = page.browser.value("location.href");
    page.browser.wait("location.hash.includes('selected-cycles=')");
    page.browser.reload();
    page.settle();
    assert_eq!(page.selection(), selected, "{address}");
    assert_eq!(page.table(), table);
    // Without Shift it moves; Escape selects nothing, and the table is the whole again.
    page.browser.click("#in");
    page.settle();
    let before = page.browser.value("memtapView.map.window.from").as_f64();
    let (from, to) = (page.point(0.5, 0.5), page.point(0.4, 0.5));
    page.browser.drag(from, to, false);
    page.settle();
    assert!(page.browser.value("memtapView.map.window.from").as_f64() > before);
    assert_eq!(page.selection(), selected);
    page.browser.key("Escape");
    page.browser.key("0");
    page.settle();
    assert_eq!(page.browser.value("memtapView.map.selection"), Value::Null);
    assert_eq!(page.table(), whole);
    page.quiet();
}

/// A program that writes each byte of a page, then reads each, at the same pace.
const DIAGONAL: &str = "\
static char page[4096] __attribute__((aligned(4096)));
static char other;
int main(void) {
    for (int i = 0; i < 4096; i++)
        *(volatile char *)&page[i] = 1;
    for (int i = 0; i < 4096; i++)
        *(volatile char *)&other = *(volatile char *)&page[i];
    return 0;
}
";

/// Cycle and address of the accesses of one kind to `page`.
fn to_page(trace: &Trace, kind: &str) -> Vec<(u64, u64)> {
    let events = trace.events();
    let of_page = events.iter().filter(|event| event["type"] == kind && event["variable"] == "page");
    of_page.map(|event| (event["cycle"].as_u64().expect("a cycle"), hexadecimal(&event["addr"]))).collect()
}

fn diagonal() -> ViewPage {
    ViewPage::of(TestProgram::from_source("diagonal.c", DIAGONAL, &["-g"]).record_by("translate").trace)
}

#[test]
fn the_wheel_zooms_to_a_single_access_and_keys_go_to_the_next() {
    let mut page = diagonal();
    let (stores, loads) = (to_page(&page.trace, "store"), to_page(&page.trace, "load"));
    assert_eq!((stores.len(), loads.len()), (4096, 4096));
    let ((cycle, addr), (read, _)) = (stores[1234], loads[1234]);
    for _ in 0..200 {
        let point = page.point_of(cycle, addr);
        page.browser.wheel(point, -200.0);
        page.browser.wait("memtapView.map.settled");
        if page.browser.value("memtapView.map.tile.width <= 17 && memtapView.map.tile.height <= 17")
            == json!(true)
        {
            break;
        }
    }
    page.settle();
    // Windows end at whole cycles and bytes.
    let cells = page.browser.value(
        "(({ width, height, window }) => [width - (window.to - window.from), height - Number(window.high - window.low), \
         width <= 17 && height <= 17])(memtapView.map.tile)",
    );
    assert_eq!(cells, json!([0, 0, true]), "a cell is a cycle and a byte");
    let point = page.point_of(cycle, addr);
    page.browser.point_at(point);
    page.browser.wait("document.querySelector('#where').innerText.includes('1 access')");
    let said = page.browser.text("#where");
    assert!(said.contains(&format!("{addr:#x}")) && said.contains("bss"), "{said}");
    // The access itself, and the next one to its byte, which that one wrote.
    page.browser.drag(point, point, false);
    page.settle();
    let said = page.browser.text("#accessed");
    assert!(
        said.contains("store of 1 byte") && said.contains("page+1234") | said.contains("page[1234]"),
        "{said}"
    );
    assert!(said.contains("diagonal.c:5") && said.contains("Not written before"), "{said}");
    let found = |page: &mut ViewPage| page.browser.value("memtapView.walk.found.cycle").as_u64();
    assert_eq!(found(&mut page), Some(cycle));
    page.browser.key("n");
    page.settle();
    assert_eq!(found(&mut page), Some(read));
    let said = page.browser.text("#accessed");
    assert!(said.contains("load of 1 byte") && said.contains("diagonal.c:7"), "{said}");
    assert!(said.contains("Written before") && said.contains("diagonal.c:5"), "{said}");
    // It is in sight.
    assert_eq!(
        page.browser.value("(({ from, to }, cycle) => from <= cycle && cycle < to)(memtapView.map.window, memtapView.walk.found.cycle)"),
        true
    );
    page.browser.key("n");
    page.settle();
    assert!(page.browser.text("#accessed").contains("no access"), "nobody else reads it");
    page.browser.key("p");
    page.settle();
    assert_eq!(found(&mut page), Some(cycle));
    page.quiet();
}

/// Whatever the mouse says of a cell, a click finds: an access of that cell where it counts some, and nothing where it counts none.
#[test]
fn a_click_finds_what_the_mouse_counts() {
    let mut page = heap();
    let zoom = |page: &mut ViewPage, part: f64| {
        page.browser.value(&format!(
            "(() => {{ const {{ map }} = memtapView, {{ from, to, bottom }} = map.bounds; \
             map.move({{ from, to: from + (to - from) * {part}, top: bottom * (1 - {part}), bottom }}, 0); }})()"
        ));
        page.settle();
    };
    let mut clicked = 0;
    for (part, ratio) in [(1.0, 1.0), (0.3, 1.5), (0.05, 2.0), (0.002, 1.0)] {
        page.browser.size_at(2560, 1440, ratio);
        zoom(&mut page, part);
        // Some cells with accesses, some next to them, and some anywhere.
        let points = page.browser.value(
            "(() => { const { map } = memtapView, { plot, tile } = map; let seed = 12345; \
             const random = (end) => { seed = (seed * 1103515245 + 12345) % 2147483648; return Math.floor(seed / 2147483648 * end); }; \
             const full = [...tile.counts.keys()].filter((cell) => tile.counts[cell] > 0); \
             const cells = Array.from({ length: 50 }, (_, n) => n % 5 === 4 || full.length === 0 ? random(tile.counts.length) : full[random(full.length)]); \
             return cells.map((cell, n) => { const off = n % 5 === 3 ? 1 : 0; \
             const x = plot.x + (cell % tile.width + off + 0.5) / tile.width * plot.width, y = plot.y + (Math.floor(cell / tile.width) + 0.5) / tile.height * plot.height; \
             return [x, y]; }).filter(([x, y]) => map.cellAt(x, y)); })()",
        );
        for point in points.as_array().expect("points") {
            let [x, y] = [0, 1].map(|at| point[at].as_f64().expect("a number"));
            let on_page = page.on_page(x, y);
            page.browser.point_at(on_page);
            let cell = page.browser.value(&format!(
                "(({{ count, from, to, low, high }}) => [count, from, to, String(low), String(high)])(memtapView.map.cellAt({x}, {y}))"
            ));
            let count = cell[0].as_u64().expect("a count");
            let words = if count == 1 { "1 access".to_owned() } else { format!("{count} accesses") };
            let hovered = page.browser.text("#where").replace(['\u{202f}', '\u{a0}'], "");
            assert!(hovered.ends_with(&words), "{hovered} is not {words}");
            page.browser.drag(on_page, on_page, false);
            page.settle();
            let said = page.browser.text("#accessed");
            if count == 0 {
                assert!(said.contains("There is no access here"), "{said}");
                continue;
            }
            let is_exact = "(({ spread, estimated }) => spread + estimated === 0)(memtapView.map.tile.facts)";
            let is_there = page.browser.value(&format!(
                "((found) => found === null ? null : {} <= found.cycle && found.cycle < {} && {}n <= BigInt(found.addr) && BigInt(found.addr) < {}n)(memtapView.walk.found)",
                cell[1], cell[2], cell[3].as_str().expect("text"), cell[4].as_str().expect("text")
            ));
            match is_there {
                Value::Null => {
                    assert!(said.contains("zoom in"), "{said}");
                    assert_eq!(page.browser.value(is_exact), false, "{cell}: {said}");
                }
                is_there => assert_eq!(is_there, true, "{cell}: {said}"),
            }
            clicked += 1;
        }
    }
    assert!(clicked > 100, "{clicked}");
    page.quiet();
}

#[test]
fn colours_of_single_accesses_stand_out() {
    let mut page = heap();
    for scheme in ["light", "dark"] {
        let contrast = page.browser.value(&format!(
            "(async () => {{ const {{ ramp }} = await import('./colors.js'); \
             const linear = (value) => value <= 10.31475 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4; \
             const light = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue); \
             const ground = light({scheme} ? [13, 14, 16] : [255, 255, 255]); \
             const few = light([...new Uint8Array(ramp({scheme}).buffer, 0, 3)]); \
             const [high, low] = [ground, few].sort((a, b) => b - a); return (high + 0.05) / (low + 0.05); }})()",
            scheme = scheme == "dark"
        ));
        assert!(contrast.as_f64().expect("a number") >= 3.0, "{scheme}: {contrast}");
    }
    page.quiet();
}

#[test]
fn the_flame_graph_has_what_the_table_has() {
    let mut page = heap();
    page.browser.click("#flame summary");
    let drawn = "memtapView.flame.settled && document.querySelector('#flame .frames button')";
    page.browser.wait(drawn);
    let total = |page: &mut ViewPage| page.browser.value("memtapView.flame.answer.total").as_u64();
    assert_eq!(total(&mut page), Some(page.trace.number("accesses")));
    let frame = |name: &str| {
        format!(
            "[...document.querySelectorAll('#flame .frames button')].find(frame => frame.textContent === '{name}')"
        )
    };
    // A click makes a function as wide as the whole.
    page.browser.value(&format!("{}.click()", frame("in_a_loop")));
    assert_eq!(page.browser.value(&format!("{}.style.width", frame("in_a_loop"))), "100%");
    page.browser.value(&format!("{}.click()", frame("all")));
    // It follows the selection.
    let (from, to) = (page.point(0.3, 0.02), page.point(0.8, 0.98));
    page.browser.drag(from, to, true);
    page.settle();
    page.browser.wait(drawn);
    let (selected, table) = (page.selection(), page.table());
    assert_eq!(total(&mut page), Some(table[..3].iter().sum()), "{selected:?}");
    page.quiet();
}

#[test]
fn calls_are_a_tree_as_well() {
    let mut page = heap();
    page.browser.click("#flame summary");
    page.browser.wait("memtapView.flame.settled && document.querySelector('#flame .frames button')");
    let frames = page.browser.value("memtapView.flame.answer.frames");
    let frames = frames.as_array().expect("an array");
    let number = |frame: &Value, key: &str| frame[key].as_u64().expect("a number");
    let sum = |name: &str, key: &str| -> u64 {
        frames.iter().filter(|frame| frame["name"] == name).map(|frame| number(frame, key)).sum()
    };
    // Every row with its depth, name and number of accesses.
    let rows = |page: &mut ViewPage| {
        let rows = page.browser.value(
            "[...document.querySelectorAll('#flame .rows tr')].map(row => [Number(row.dataset.depth), \
             row.querySelector('th').textContent.replace(/^[^\\w<[]+/, ''), Number(row.querySelector('td').firstChild.textContent.replace(/\\D/g, ''))])",
        );
        serde_json::from_value::<Vec<(u64, String, u64)>>(rows).expect("rows")
    };
    page.choose("#flame .shape", "down");
    let down = rows(&mut page);
    let outermost: u64 =
        frames.iter().filter(|frame| frame["depth"] == 1).map(|frame| number(frame, "total")).sum();
    assert_eq!(down.iter().filter(|row| row.0 == 0).map(|row| row.2).sum::<u64>(), outermost);
    let main = down.iter().position(|row| row.1 == "main").expect("what has most is unfolded");
    assert_eq!(down[main].2, sum("main", "total"));
    // What is below it goes away with a click, and comes back with another one.
    let button = format!("#flame .rows tr:nth-child({}) .fold", main + 1);
    let is_open = down.get(main + 1).is_some_and(|row| row.0 > down[main].0);
    page.browser.click(&button);
    let turned = rows(&mut page);
    assert_eq!(turned.get(main + 1).is_some_and(|row| row.0 > down[main].0), !is_open);
    page.browser.click(&button);
    assert_eq!(rows(&mut page).len(), down.len());

    page.choose("#flame .shape", "up");
    let up = rows(&mut page);
    let own: u64 = frames.iter().filter(|frame| frame["depth"] != 0).map(|frame| number(frame, "own")).sum();
    assert_eq!(up.iter().filter(|row| row.0 == 0).map(|row| row.2).sum::<u64>(), own);
    let in_a_loop = up.iter().find(|row| row.0 == 0 && row.1 == "in_a_loop").expect("it has a row");
    assert_eq!(in_a_loop.2, sum("in_a_loop", "own"));
    page.quiet();
}

#[test]
fn blocks_of_the_heap_are_outlined() {
    let mut page = heap();
    let malloc =
        page.trace.events().into_iter().find(|event| event["type"] == "malloc" && event["size"] == 80);
    let malloc = malloc.expect("by_malloc allocates it");
    let (addr, cycle) = (hexadecimal(&malloc["addr"]), malloc["cycle"].as_u64().expect("a cycle"));
    page.browser.value(&format!(
        "(() => {{ const {{ map }} = memtapView; map.move({{ from: {cycle} - 10, to: {cycle} + 40, \
         top: map.axis.place({addr}n - 16n), bottom: map.axis.place({addr}n + 96n) }}); }})()"
    ));
    page.settle();
    page.browser.wait("memtapView.map.blocks.length > 0");
    let point = page.point_of(cycle + 5, addr + 8);
    page.browser.point_at(point);
    page.browser.wait("document.querySelector('#where').innerText.includes('block of 80 bytes')");
    let point = page.point_of(cycle - 5, addr + 8);
    page.browser.point_at(point);
    page.browser.wait("!document.querySelector('#where').innerText.includes('block of')");
    // An access to it says where it was allocated.
    let (part, source) = (format!("low={addr:#x}&high={:#x}&from={cycle}", addr + 80), "heap.c");
    let found = &page.viewer.json(&format!("access?{part}"))["found"];
    let text =
        std::fs::read_to_string(repository().join("tests/programs").join(source)).expect("it is there");
    let line = text.lines().position(|line| line.contains("malloc(80)")).expect("by_malloc calls it") + 1;
    assert_eq!(found["allocated"], format!("{source}:{line}"), "{found}");
    page.quiet();
}

#[test]
fn lines_open_their_source_with_counts() {
    let mut page = diagonal();
    page.browser.key("/");
    page.browser.write("page");
    page.browser.key("Enter");
    page.browser.wait("memtapView.map.selection");
    page.browser.value(
        "(() => { document.querySelector('#pane .search').value = ''; const by = document.querySelector('#by'); \
         by.value = 'line'; by.dispatchEvent(new Event('change')); })()",
    );
    page.settle();
    page.browser.click("#pane tbody button.link");
    page.browser.wait("document.querySelectorAll('#source tbody tr').length > 0");
    let rows = page.browser.value(
        "[...document.querySelectorAll('#source tbody tr')].map(row => [...row.children].map(cell => cell.innerText.replace(/[\\u202f\\u00a0]/g, '')))",
    );
    let lines: Vec<&str> = DIAGONAL.lines().collect();
    for row in rows.as_array().expect("an array") {
        let text = |column: usize| row[column].as_str().expect("text");
        let number: usize = text(3).parse().expect("a line's number");
        assert_eq!(text(4).trim_end(), lines[number - 1].trim_end(), "{row}");
        // The fifth line writes, the seventh reads.
        let expect = [if number == 7 { "4096" } else { "" }, if number == 5 { "4096" } else { "" }, ""];
        assert_eq!([0, 1, 2].map(text), expect, "{row}");
    }
    assert_eq!(rows.as_array().map(Vec::len), Some(lines.len()));
    page.browser.click("#source .close");
    assert_eq!(page.browser.value("document.querySelector('#source').hidden"), true);
    page.quiet();
}

#[test]
fn the_search_finds_a_variable_and_selects_it() {
    let mut page = diagonal();
    let stores = to_page(&page.trace, "store");
    page.browser.key("/");
    page.browser.write("page");
    page.browser.key("Enter");
    page.browser.wait("memtapView.map.selection");
    page.settle();
    let selected = page.selection();
    assert_eq!((selected.low, selected.high), (stores[0].1, stores[0].1 + 4096));
    let table = page.table();
    assert_eq!(table, page.report_of(selected, "variable"));
    assert_eq!(table, [4096, 4096, 0, 8192]);
    assert!(page.browser.text("#found").contains("page"));
    // A function's accesses are in the table.
    page.browser
        .value("(search => { search.focus(); search.select(); })(document.querySelector('#pane .search'))");
    page.browser.write("main");
    page.browser.key("Enter");
    page.browser.wait("memtapView.chosen.by === 'function'");
    page.browser.wait("memtapView.pane.settled && memtapView.pane.answer.by === 'function'");
    assert!(page.browser.text("#found").contains("main is a function"));
    assert_eq!(page.browser.text("#pane tbody th").split_whitespace().next(), Some("main"));
    // What is not there is told.
    page.browser.value("document.querySelector('#pane .search').select()");
    page.browser.key("/");
    page.browser.write("no_such_thing");
    page.browser.key("Enter");
    page.browser.wait("document.querySelector('#found').innerText.includes('no_such_thing')");
    // Answers that are no success are noted by the browser, not by the page.
    let said: Vec<String> =
        page.browser.complaints().into_iter().filter(|line| !line.contains("404")).collect();
    assert!(said.is_empty(), "{said:?}");
}
