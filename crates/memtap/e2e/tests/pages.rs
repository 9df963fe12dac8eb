//! The pages and pictures that memtap writes are complete and self-contained, and have the same figures as the other outputs.

use e2e::{Browser, Recording, TestProgram, total_of};

/// Writes the page of a trace, which is to ask nothing of a network.
fn page_of(recording: &Recording) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let page = dir.path().join("report.html");
    let written = recording.trace.ask("report", &["--html", page.to_str().expect("UTF-8")]);
    assert_eq!(written.status, 0, "{}", written.err());
    let source = std::fs::read_to_string(&page).expect("it was just written");
    for outside in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!source.contains(outside), "the page asks the network: {outside}");
    }
    (dir, page)
}

/// The cells of the first row in sight that has this text.
fn row(browser: &mut Browser, text: &str) -> Vec<String> {
    let script = format!(
        "(() => {{ const row = [...document.querySelectorAll('.row')].find(r => r.innerText.includes({text:?})); \
         return row ? [...row.children].map(cell => cell.innerText) : null; }})()"
    );
    browser.wait(&script);
    let cells = browser.value(&script);
    cells.as_array().expect("an array").iter().map(|cell| cell.as_str().unwrap_or("").to_owned()).collect()
}

#[test]
fn the_report_is_used_in_a_browser() {
    let recording = TestProgram::named("heap.c").record();
    let (_dir, page) = page_of(&recording);
    let mut browser = Browser::open(&page);
    browser.size(1920, 1000);
    assert!(browser.text("#stale").contains("None"), "heap.c uses nothing after its release");
    // Find a block by the keyboard alone.
    browser.key("/");
    browser.write("by_calloc calloc");
    let cells = row(&mut browser, "by_calloc");
    // The same figure in every output.
    let counts = total_of(&recording.trace.variables(), "<calloc@by_calloc>");
    assert_eq!(counts.loads, 30);
    assert!(cells.contains(&"30".to_owned()), "30 loads are not in {cells:?}");
    browser.key("ArrowDown");
    browser.key("Enter");
    browser.wait("!document.getElementById('detail').hidden");
    let said = browser.text("#detail");
    assert!(said.contains("<calloc") && said.contains("30 loads") && said.contains("by_calloc"), "{said}");
    // From the block to its site, to a function, to a line, with its source.
    browser.click("#detail a[href^='#site/']");
    browser.wait("document.querySelector('#detail h2').innerText.startsWith('calloc at by_calloc')");
    let site = browser.text("#detail");
    // 30 loads and 5 stores of 8 bytes in a block of 240, which was released.
    for words in ["1 block", "never released: 0 blocks", "each byte accessed 1.2 times"] {
        assert!(site.contains(words), "{words}: {site}");
    }
    browser.click("#detail a[href^='#function/']");
    browser.wait("document.querySelector('#detail h3').innerText === 'Accesses'");
    browser.click("#detail a[href^='#line/']");
    browser.wait("document.querySelector('#detail h2').innerText.startsWith('heap.c:')");
    assert!(browser.text("#detail .source .at").len() > 5, "the line's text is missing");
    browser.value("history.back()");
    browser.wait("document.querySelector('#detail h3').innerText === 'Accesses'");
    browser.key("Escape");
    browser.wait("document.getElementById('detail').hidden");
    // Sorted by size, the other way round with the second click.
    browser.click("[data-view=variable]");
    browser.value("document.getElementById('search').value = ''");
    browser.click("#system");
    let shown = browser.text("#shown");
    assert!(shown.contains("100.0"), "with everything the shares are the whole: {shown}");
    for (sort, way) in [("descending", "a >= b"), ("ascending", "a <= b")] {
        browser.value("[...document.querySelectorAll('#head button')].find(b => b.innerText.startsWith('loads')).click()");
        assert_eq!(browser.value("document.querySelector('#head [aria-sort$=ending]').ariaSort"), sort);
        let column =
            "[...document.querySelectorAll('#head button')].findIndex(b => b.innerText.startsWith('loads'))";
        let sorted = format!(
            "(() => {{ const i = {column}; const all = [...document.querySelectorAll('.row')].map(r => Number(r.children[i].innerText.replace(/\\D/g, ''))); \
             return all.length > 3 && all.slice(1).every((b, n) => {{ const a = all[n]; return {way}; }}); }})()"
        );
        browser.wait(&sorted);
    }
    for view in ["function", "site", "line", "heat"] {
        browser.click(&format!("[data-view={view}]"));
        browser.wait(&format!("document.querySelector('[data-view={view}]').ariaSelected === 'true'"));
    }
    browser.prefer_dark(true);
    let dark = browser.value("getComputedStyle(document.body).backgroundColor");
    browser.prefer_dark(false);
    assert_ne!(dark, browser.value("getComputedStyle(document.body).backgroundColor"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_heat_map_names_what_lies_on_a_page() {
    let recording = TestProgram::named("heap.c").record();
    let (_dir, page) = page_of(&recording);
    let mut browser = Browser::open(&page);
    browser.click("[data-view=heat]");
    browser.value("document.getElementById('heat-rows').focus()");
    let mut named = String::new();
    // From page to page, as far as the blocks.
    for _ in 0..40 {
        browser.key("ArrowRight");
        named += &browser.text("#tip");
    }
    assert!(named.contains("blocks of ") && named.contains("0x"), "{named}");
    // The mouse says the same of the cell that it is on.
    let at = browser.value(
        "(() => { const r = document.getElementById('cells').getBoundingClientRect(); return [r.x, r.y]; })()",
    );
    let (x, y) = (at[0].as_f64().expect("a number"), at[1].as_f64().expect("a number"));
    let mut pointed = false;
    for down in (0..500).step_by(6) {
        browser.point_at((x + 20.0, y + f64::from(down)));
        pointed |= browser.value("!document.getElementById('tip').hidden") == serde_json::json!(true);
    }
    assert!(pointed, "the mouse finds no cell");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// A page of more blocks than a browser has room for elements.
#[test]
fn a_hundred_thousand_blocks_are_scrolled_to_the_end() {
    let text = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 100000; i++) { volatile char *b = malloc(20); b[0] = 1; } return 0; }\n";
    let program = TestProgram::from_source("many_blocks.c", text, &[]);
    let trace = e2e::record(&["--tracer=translate".to_owned()], &program.command_line(), b"");
    let (_dir, page) = page_of(&trace);
    let mut browser = Browser::open(&page);
    browser.click("[data-view=variable]");
    browser.wait("document.querySelectorAll('.row').length > 5");
    let elements = browser.value("document.querySelectorAll('*').length").as_u64().expect("a number");
    assert!(elements < 3000, "{elements} elements");
    let rows = browser.value("Number(document.getElementById('rows').ariaRowCount ?? document.getElementById('rows').getAttribute('aria-rowcount'))");
    assert!(rows.as_u64() > Some(100_000), "{rows}");
    browser.value("document.getElementById('rows').focus()");
    browser.key("End");
    browser
        .wait(&format!("document.querySelector('.row.chosen')?.getAttribute('aria-rowindex') === '{rows}'"));
    browser.key("/");
    browser.write("malloc99999@main");
    let cells = row(&mut browser, "<malloc99999@main");
    assert!(cells.contains(&"20".to_owned()), "its size is not in {cells:?}");
    // A translated trace knows who called whom.
    browser.click("[data-view=flame]");
    browser.wait("document.querySelector('#flame iframe').contentDocument?.querySelector('.frame')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn use_after_free_is_found() {
    let recording = TestProgram::named("use_after_free.c").record();
    let (_dir, page) = page_of(&recording);
    let mut browser = Browser::open(&page);
    let said = browser.text("#stale");
    assert!(
        said.contains("<freed:") && said.contains("@make") && said.contains("released by main"),
        "{said}"
    );
    assert!(browser.text("#tabs").contains("memory error"), "the heading does not say it");
}

/// Page titles come from command lines, names from programs: none of it is markup.
#[test]
fn names_are_no_markup() {
    let program = TestProgram::named("statics.c");
    let line = [program.path.display().to_string(), "<script>window.bad = 1</script><!--".to_owned()];
    let recording = e2e::record(&[], &line, b"");
    let (_dir, page) = page_of(&recording);
    let mut browser = Browser::open(&page);
    assert!(browser.text("#title").contains("<script>window.bad = 1</script>"));
    assert_eq!(browser.value("window.bad ?? null"), serde_json::Value::Null);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn heat_maps_are_svg_and_png() {
    let recording = TestProgram::named("statics.c").record();
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, head) in [("map.svg", &b"<"[..]), ("map.png", &b"\x89PNG\r\n\x1a\n"[..])] {
        for only in [&[][..], &["--only", "loads"], &["--only", "stores"]] {
            let path = dir.path().join(name);
            let options = [&["--force", "-o", path.to_str().expect("UTF-8")], only].concat();
            let drawn = recording.trace.ask("heatmap", &options);
            assert_eq!(drawn.status, 0, "{}", drawn.err());
            let bytes = std::fs::read(&path).expect("it was just drawn");
            assert!(bytes.starts_with(head) && bytes.len() > 500, "{name} {only:?} is no picture");
        }
    }
    let path = dir.path().join("map.svg");
    let drawn = std::fs::read(&path).expect("it was drawn");
    for (command, option) in [("heatmap", "-o"), ("report", "--html")] {
        let refused = recording.trace.ask(command, &[option, path.to_str().expect("UTF-8")]);
        assert_eq!(refused.status, 1);
        let words = format!("memtap: {}: already exists; --force replaces it\n", path.display());
        assert_eq!(refused.err(), words);
        assert_eq!(std::fs::read(&path).expect("it is there"), drawn);
    }
    let unknown = dir.path().join("map.gif");
    let refused = recording.trace.ask("heatmap", &["-o", unknown.to_str().expect("UTF-8")]);
    assert!(
        refused.status != 0 && refused.err().lines().count() == 1 && !unknown.exists(),
        "{}",
        refused.err()
    );
}
