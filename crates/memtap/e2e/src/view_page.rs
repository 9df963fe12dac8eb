//! The page of `memtap view` in a browser, used as a person would.

use serde_json::Value;

use crate::{Browser, Trace, Viewer};

/// A page of a trace, and the server that it asks.
#[derive(Debug)]
pub struct ViewPage {
    /// What it shows; of two runs the first one.
    pub trace: Trace,
    /// The server.
    pub viewer: Viewer,
    /// The browser.
    pub browser: Browser,
}

/// A part of a run: cycles and addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Selection {
    pub from: u64,
    pub to: u64,
    pub low: u64,
    pub high: u64,
}

/// The number that a text like `0x10` is.
pub fn hexadecimal(text: &Value) -> u64 {
    let digits = text.as_str().and_then(|text| text.strip_prefix("0x")).expect("an address");
    u64::from_str_radix(digits, 16).expect("hexadecimal")
}

impl ViewPage {
    /// Opens that of a trace.
    pub fn of(trace: Trace) -> Self {
        let viewer = Viewer::of(&trace.path);
        Self::at(viewer, trace)
    }

    /// Opens that of a server.
    pub fn at(viewer: Viewer, trace: Trace) -> Self {
        let browser = Browser::visit(&viewer.url);
        let mut page = Self { trace, viewer, browser };
        page.settle();
        page
    }

    /// Chooses an entry of a list of the page.
    pub fn choose(&mut self, list: &str, value: &str) {
        self.browser.value(&format!(
            "(() => {{ const list = document.querySelector('{list}'); list.value = '{value}'; \
             list.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()"
        ));
    }

    /// Waits until the map and the table are those of what is chosen.
    pub fn settle(&mut self) {
        self.browser.wait("globalThis.memtapView?.map.settled && memtapView.pane.settled");
        // What is drawn with the next frame, and what is asked for after a while, has begun by then.
        self.browser
            .value("new Promise(done => setTimeout(() => requestAnimationFrame(() => done(0)), 400))");
        self.browser.wait("memtapView.map.settled && memtapView.pane.settled && memtapView.walk.settled");
    }

    /// Loads, stores, modifies and bytes in the table, by what its rows say.
    pub fn table(&mut self) -> [u64; 4] {
        let sums = self.browser.value(
            "(() => { const rows = [...document.querySelectorAll('#pane tbody tr')]; \
             const columns = [...document.querySelectorAll('#pane thead th')].map(cell => cell.dataset.key); \
             return ['loads', 'stores', 'modifies', 'bytes'].map(key => rows.reduce((sum, row) => \
             sum + Number(row.children[columns.indexOf(key)].innerText.replace(/\\D/g, '')), 0)); })()",
        );
        [0, 1, 2, 3].map(|column| sums[column].as_u64().expect("a number"))
    }

    /// The same by `report --json`.
    pub fn report(&self, options: &[&str]) -> [u64; 4] {
        let out = self.trace.ask("report", &[&["--json"], options].concat());
        let rows: Value = serde_json::from_str(&out.out()).expect("JSON");
        let rows = rows.as_array().expect("an array");
        ["loads", "stores", "modifies", "bytes"]
            .map(|key| rows.iter().map(|row| row[key].as_u64().expect("a number")).sum())
    }

    /// What is selected.
    pub fn selection(&mut self) -> Selection {
        let said = self.browser.value(
            "(({ from, to, low, high }) => ({ from, to, low: `0x${low.toString(16)}`, high: `0x${high.toString(16)}` }))\
             (memtapView.map.selection)",
        );
        let number = |key: &str| said[key].as_u64().expect("a number");
        Selection {
            from: number("from"),
            to: number("to"),
            low: hexadecimal(&said["low"]),
            high: hexadecimal(&said["high"]),
        }
    }

    /// That of a part, by rows of that kind.
    pub fn report_of(&self, part: Selection, by: &str) -> [u64; 4] {
        let (cycles, range) =
            (format!("{}..{}", part.from, part.to), format!("{:#x}..{:#x}", part.low, part.high));
        self.report(&["--by", by, "--cycles", &cycles, "--range", &range])
    }

    /// A point of the window, in parts of the plot.
    pub fn point(&mut self, across: f64, down: f64) -> (f64, f64) {
        let point = self.browser.value(&format!(
            "(() => {{ const {{ canvas, plot }} = memtapView.map; const box = canvas.getBoundingClientRect(); \
             return [box.left + plot.x + plot.width * {across}, box.top + plot.y + plot.height * {down}]; }})()"
        ));
        (point[0].as_f64().expect("a number"), point[1].as_f64().expect("a number"))
    }

    /// A point of the map's canvas, in the window.
    pub fn on_page(&mut self, x: f64, y: f64) -> (f64, f64) {
        let point = self.browser.value(&format!(
            "(() => {{ const box = memtapView.map.canvas.getBoundingClientRect(); return [box.left + {x}, box.top + {y}]; }})()"
        ));
        (point[0].as_f64().expect("a number"), point[1].as_f64().expect("a number"))
    }

    /// Where an access is drawn: the middle of its first byte and cycle.
    pub fn point_of(&mut self, cycle: u64, addr: u64) -> (f64, f64) {
        let point = self.browser.value(&format!(
            "(() => {{ const {{ map }} = memtapView; const box = map.canvas.getBoundingClientRect(); \
             const place = (map.axis.place({addr}n) + map.axis.place({addr}n + 1n)) / 2; \
             return [box.left + map.x({cycle} + 0.5), box.top + map.y(place)]; }})()"
        ));
        (point[0].as_f64().expect("a number"), point[1].as_f64().expect("a number"))
    }

    /// Fails where the page's scripts complained.
    pub fn quiet(&self) {
        let complaints = self.browser.complaints();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}
