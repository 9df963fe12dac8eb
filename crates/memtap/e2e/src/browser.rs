//! A headless browser, driven from outside as a person would use it: keys, the mouse, and what is then on the page.
//!
//! Chromium takes its protocol over two pipes, whose messages end with a zero byte. Two named pipes are its descriptors 3 and 4.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::{Limited, spawn, tool};

/// The Shift key, as the protocol has it among modifiers.
const SHIFT: u8 = 8;

/// A browser that shows one page.
#[derive(Debug)]
pub struct Browser {
    child: Limited,
    commands: File,
    answers: BufReader<File>,
    session: Option<String>,
    last: u64,
    events: Vec<Value>,
    _dir: tempfile::TempDir,
}

impl Browser {
    /// Opens a file.
    pub fn open(page: &Path) -> Self {
        Self::visit(&format!("file://{}", page.display()))
    }

    /// Opens an address.
    pub fn visit(url: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (down, up) = (dir.path().join("commands"), dir.path().join("answers"));
        let made = Command::new("mkfifo").args([&down, &up]).status().expect("mkfifo is there");
        assert!(made.success(), "mkfifo: {made}");
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<\"$DOWN\" 4>\"$UP\""]).env("DOWN", &down).env("UP", &up);
        command.arg(tool("chromium")).args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", dir.path().join("profile").display())).arg("about:blank");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = spawn(&mut command);
        // Each waits for the other end.
        let commands = File::options().write(true).open(&down).expect("the browser reads");
        let answers = BufReader::new(File::open(&up).expect("the browser writes"));
        let mut browser =
            Self { child, commands, answers, session: None, last: 0, events: Vec::new(), _dir: dir };
        let targets = browser.ask("Target.getTargets", json!({}));
        let target = targets["targetInfos"].as_array().into_iter().flatten().find(|t| t["type"] == "page");
        let target = target.expect("a page")["targetId"].clone();
        let attached = browser.ask("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser.size(1280, 800);
        browser.load("Page.navigate", json!({"url": url}));
        browser
    }

    /// Loads the page again, from the address that it has now.
    pub fn reload(&mut self) {
        self.load("Page.reload", json!({}));
    }

    /// Asks for a page, and waits until it is loaded.
    fn load(&mut self, method: &str, params: Value) {
        let loads =
            |events: &[Value]| events.iter().filter(|event| event["method"] == "Page.loadEventFired").count();
        let before = loads(&self.events);
        self.ask(method, params);
        while loads(&self.events) == before {
            let event = self.read();
            self.events.push(event);
        }
    }

    /// Gives the window that size in pixels.
    pub fn size(&mut self, width: u32, height: u32) {
        self.size_at(width, height, 1.0);
    }

    /// The same on a screen that has so many of its own pixels for each.
    pub fn size_at(&mut self, width: u32, height: u32, ratio: f64) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// What the page's scripts complained of so far.
    pub fn complaints(&self) -> Vec<String> {
        let of = ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"];
        let events = self.events.iter();
        events.filter(|e| of.iter().any(|method| e["method"] == *method)).map(Value::to_string).collect()
    }

    /// The value of an expression of the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// The text of the first element that a selector finds.
    pub fn text(&mut self, selector: &str) -> String {
        let selector = json!(selector);
        let text = self.value(&format!("document.querySelector({selector})?.innerText ?? null"));
        text.as_str().unwrap_or_else(|| panic!("no element {selector}")).to_owned()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        for _ in 0..1_200 {
            if self.value(&format!("Boolean({expression})")) == json!(true) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
        panic!("never true: {expression}");
    }

    /// Presses a key, as `a`, `Enter` or `ArrowDown`.
    pub fn key(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        let mut event = json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code});
        if key.chars().count() == 1 {
            event["text"] = json!(key);
        }
        self.ask("Input.dispatchKeyEvent", event);
        self.ask("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key, "code": key}));
    }

    /// Types words where the focus is.
    pub fn write(&mut self, words: &str) {
        self.ask("Input.insertText", json!({"text": words}));
    }

    /// Moves the mouse to the middle of an element.
    pub fn point(&mut self, selector: &str) -> (f64, f64) {
        let asked = json!(selector);
        let place = self.value(&format!(
            "(() => {{ const e = document.querySelector({asked}); if (!e) return null; e.scrollIntoView({{block: 'nearest'}}); \
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ));
        let at = |i: usize| place[i].as_f64().unwrap_or_else(|| panic!("no element {selector}"));
        let place = (at(0), at(1));
        self.point_at(place);
        place
    }

    /// Moves the mouse.
    pub fn point_at(&mut self, (x, y): (f64, f64)) {
        self.ask("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
    }

    /// Clicks on an element.
    pub fn click(&mut self, selector: &str) {
        let (x, y) = self.point(selector);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.ask("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses the left button at one point, and lets it go at another one, with Shift held where that is said.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64), shift: bool) {
        let middle = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
        let steps = [("mouseMoved", from), ("mousePressed", from), ("mouseMoved", middle)];
        for (kind, (x, y)) in steps.into_iter().chain([("mouseMoved", to), ("mouseReleased", to)]) {
            let held = kind != "mouseMoved" || (x, y) != from;
            let event = json!({
                "type": kind, "x": x, "y": y, "clickCount": 1, "modifiers": if shift { SHIFT } else { 0 },
                "button": if held { "left" } else { "none" },
                "buttons": u8::from(held && kind != "mouseReleased"),
            });
            self.ask("Input.dispatchMouseEvent", event);
        }
    }

    /// Turns the wheel at a point: upwards with a negative number.
    pub fn wheel(&mut self, (x, y): (f64, f64), down: f64) {
        let event = json!({"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": down});
        self.ask("Input.dispatchMouseEvent", event);
    }

    /// Prefers dark pages from now on, or light ones.
    pub fn prefer_dark(&mut self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    fn read(&mut self) -> Value {
        let mut message = Vec::new();
        let read = self.answers.read_until(0, &mut message).expect("the browser answers");
        assert!(read > 0 && message.pop() == Some(0), "the browser ended");
        serde_json::from_slice(&message).expect("the browser writes JSON")
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).expect("the browser reads");
        loop {
            let mut answer = self.read();
            if answer["id"] != json!(self.last) {
                self.events.push(answer);
                continue;
            }
            assert!(answer.get("error").is_none(), "{method}: {answer}");
            return answer["result"].take();
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The wrapper became the browser; its other processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
