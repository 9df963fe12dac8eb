//! `memtap view` in headless Chromium, for `cargo xtask bench view`: what people wait for, as rows of a Markdown table.
//!
//! The arguments are a trace with its page index beside it, and how many windows are looked at. MEMTAP_BIN names the command.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use e2e::{Browser, Viewer};

/// It takes that long at most until something is there.
const LIMIT: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(5);

/// How long it takes until an expression of the page is true.
fn until(browser: &mut Browser, expression: &str, start: Instant) -> Result<f64, Box<dyn Error>> {
    while browser.value(&format!("Boolean({expression})")) != true {
        if start.elapsed() > LIMIT {
            return Err(format!("{expression} is not true after {} s", LIMIT.as_secs()).into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(start.elapsed().as_secs_f64())
}

/// A page, and how many seconds it took from the start of the command.
struct Opened<const N: usize> {
    viewer: Viewer,
    browser: Browser,
    /// Until the server listened.
    listening: f64,
    /// Until each expression was true.
    seconds: [f64; N],
}

fn opened<const N: usize>(trace: &OsString, expressions: [&str; N]) -> Result<Opened<N>, Box<dyn Error>> {
    let start = Instant::now();
    let viewer = Viewer::with([trace]);
    let listening = start.elapsed().as_secs_f64();
    let mut browser = Browser::visit(&viewer.url);
    let mut seconds = [0.0; N];
    for (seconds, expression) in seconds.iter_mut().zip(expressions) {
        *seconds = until(&mut browser, expression, start)?;
    }
    Ok(Opened { viewer, browser, listening, seconds })
}

/// There is a rough picture while the index is built, or nothing is rough any more.
const SKETCH: &str = "document.querySelector('#summary')?.textContent.includes('so far') || globalThis.memtapView?.map.settled";
/// The map has a picture.
const PICTURE: &str = "globalThis.memtapView?.map.tile?.counts.some((count) => count > 0)";
/// And none that is finer follows.
const FINEST: &str = "globalThis.memtapView?.map.settled";

/// Milliseconds until windows are drawn, and until nothing finer follows, sorted. Each is a part of the run.
fn windows(browser: &mut Browser, count: usize) -> Result<[Vec<f64>; 2], Box<dyn Error>> {
    let mut all = [const { Vec::new() }; 2];
    for number in 0..count {
        // Shares of 10 to 50 %, at places that have nothing to do with each other.
        let share = 0.1 + 0.4 * (number as f64 * 0.618_034).fract();
        let place = (number as f64 * 0.754_877).fract() * (1.0 - share);
        let took = browser.value(&format!(
            "new Promise(done => {{ const {{ map }} = memtapView; const {{ from, to, top, bottom }} = map.bounds; const start = performance.now(); \
             let drawn = null; const look = () => {{ if (!map.outdated) drawn ??= performance.now() - start; \
             if (map.settled) done([drawn, performance.now() - start]); else requestAnimationFrame(look); }}; \
             map.move({{ from: from + (to - from) * {place}, to: from + (to - from) * {}, top, bottom }}); requestAnimationFrame(look); }})",
            place + share
        ));
        for (place, all) in all.iter_mut().enumerate() {
            all.push(took[place].as_f64().ok_or("a window has no time")?);
        }
    }
    all.iter_mut().for_each(|all| all.sort_by(f64::total_cmp));
    Ok(all)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let trace = arguments.next().ok_or("no trace")?;
    let count = arguments.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(40);

    let Opened { viewer, mut browser, listening, seconds: [drawn, finest, counted] } =
        opened(&trace, [PICTURE, FINEST, "memtapView.pane.settled"])?;
    println!("| indexed: the page is there | {listening:.2} s |");
    println!("| indexed: the first picture, drawn | {drawn:.2} s |");
    println!("| indexed: nothing finer follows | {finest:.1} s |");
    println!("| the table of the whole run | {counted:.1} s |");
    println!("| memory of the server, at most, until then | {} MB |", viewer.peak_bytes() >> 20);
    let what =
        [&*format!("pan and zoom, {count} windows of 10 to 50 %: drawn"), "the same, nothing finer follows"];
    for (what, times) in what.into_iter().zip(windows(&mut browser, count)?) {
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
        println!("| {what}, median and p95 | {:.0} and {:.0} ms |", at(0.5), at(0.95));
    }
    let start = Instant::now();
    browser.value(
        "(({ map }) => { const { from, to, top, bottom } = map.bounds; map.select({ from: from + (to - from) * 0.45, \
         to: from + (to - from) * 0.55, top, bottom }); })(memtapView)",
    );
    until(&mut browser, "!memtapView.pane.settled", start)?;
    let asked = browser.value("document.querySelector('#pane .count').hidden");
    if asked == false {
        browser.value("document.querySelector('#pane .count').click()");
    }
    let selected = until(&mut browser, "memtapView.pane.settled", start)?;
    println!("| the table of a tenth of the run | {selected:.1} s |");
    println!("| memory of the server, at most | {} MB |", viewer.peak_bytes() >> 20);
    drop((browser, viewer));

    let index = PathBuf::from(&trace).with_added_extension("mtx");
    std::fs::remove_file(&index)?;
    let Opened { viewer, browser: _browser, listening, seconds: [first, drawn] } =
        opened(&trace, [SKETCH, FINEST])?;
    println!("| without an index: the page is there, and says how far it is | {listening:.2} s |");
    println!("| without an index: the first picture, of what is read until then | {first:.2} s |");
    println!("| without an index: the whole picture | {drawn:.1} s |");
    println!("| memory of the server, at most | {} MB |", viewer.peak_bytes() >> 20);
    Ok(())
}
