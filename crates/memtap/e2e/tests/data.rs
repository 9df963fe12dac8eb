//! `record --tracer translate --data`: the values that accesses read and write.

use std::collections::HashMap;

use e2e::{TestProgram, record};
use serde_json::Value;

const PAGE_BYTES: u64 = 4096;

#[test]
fn values_are_what_was_read_and_written() {
    let recording = TestProgram::named("values.c").record_with("translate", &["--data"]);
    let found: Vec<String> = recording
        .trace
        .events()
        .iter()
        .filter(|event| event["region"] != "[stack]" && event["data"].is_string())
        .map(|event| {
            let text = |key: &str| event[key].as_str().expect("a text").to_owned();
            format!("{} {}+{} {}", text("type"), text("variable"), event["offset"], text("data"))
        })
        .collect();
    let expected = [
        "store byte+0 0x12",
        "store half+0 0x3456",
        "store word+0 0x789abcde",
        "store wide+0 0x1122334455667788",
        "store real+0 0x3ff0000000000000",
        "store extended+0 0xbfff8000000000000000",
        "load extended+0 0xbfff8000000000000000",
        "modify word+0 0x789abcdf",
        "modify half+0 0x7777",
        "modify word+0 0x789abce4",
        "load wide+0 0x1122334455667788",
        "modify wide+0 0x1122334455667788",
        "load wide+0 0x1122334455667788",
        "load wide+0 0x1122334455667788",
        "store pair+8 0x1122334455667788",
        "load from+0 0x66656463626139383736353433323130",
        "store to+0 0x66656463626139383736353433323130",
        "load from+10 0x61",
        "store to+20 0x61",
        "load from+11 0x62",
        "store to+21 0x62",
        "load from+12 0x63",
        "store to+22 0x63",
        "store to+19 0x23",
        "store to+20 0x23",
        "store to+21 0x23",
    ];
    assert_eq!(found, expected);
}

/// What is known of a process's memory.
#[derive(Default)]
struct Memory {
    pages: HashMap<u64, Box<[Option<u8>; PAGE_BYTES as usize]>>,
}

impl Memory {
    fn byte(&mut self, addr: u64) -> &mut Option<u8> {
        let page =
            self.pages.entry(addr / PAGE_BYTES).or_insert_with(|| Box::new([None; PAGE_BYTES as usize]));
        &mut page[(addr % PAGE_BYTES) as usize]
    }

    fn forget(&mut self, addr: u64, len: u64) {
        let end = addr + len;
        let mut at = addr;
        while at < end {
            let stop = end.min((at / PAGE_BYTES + 1) * PAGE_BYTES);
            if let Some(page) = self.pages.get_mut(&(at / PAGE_BYTES)) {
                page[(at % PAGE_BYTES) as usize..][..(stop - at) as usize].fill(None);
            }
            at = stop;
        }
    }
}

fn hex(event: &Value, key: &str) -> Option<u64> {
    u64::from_str_radix(event[key].as_str()?.strip_prefix("0x")?, 16).ok()
}

/// The bytes of an access, the first one first.
fn bytes(event: &Value) -> Option<Vec<u8>> {
    let digits = event["data"].as_str()?.strip_prefix("0x")?;
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    Some((0..digits.len()).step_by(2).rev().map(byte).collect())
}

/// Replays a run of one thread: every load reads what was stored last, or, at its first sight, what it says. Returns how many
/// bytes were compared.
fn replay(line: &[&str]) -> u64 {
    let options = ["--tracer=translate", "--data"].map(str::to_owned);
    let line: Vec<String> = line.iter().map(|word| word.to_string()).collect();
    let recording = record(&options, &line, b"");
    assert_eq!(recording.outcome.status, 0, "{}", recording.outcome.err());
    let mut memory = Memory::default();
    let (mut compared, mut stack) = (0, 0);
    for event in recording.trace.events() {
        let addr = hex(&event, "addr").unwrap_or(0);
        let size = event["size"].as_u64().unwrap_or(0);
        match event["type"].as_str().expect("an event has a type") {
            "prefetch" => {}
            kind @ ("load" | "store" | "modify") => {
                if event["region"] == "[stack]" && kind == "store" {
                    stack = addr;
                }
                let Some(bytes) = bytes(&event) else {
                    // What the tracer can't execute itself: the processor's state, at most a page of it.
                    assert!(
                        kind == "load" || event["code"].as_str().is_some_and(|code| code.contains("xsave"))
                    );
                    memory.forget(addr, PAGE_BYTES);
                    continue;
                };
                assert_eq!(bytes.len() as u64, size, "{event}");
                for (byte, addr) in bytes.into_iter().zip(addr..) {
                    let known = memory.byte(addr);
                    if kind == "load"
                        && let Some(known) = *known
                    {
                        compared += 1;
                        assert_eq!(byte, known, "{addr:#x} in {event}");
                    }
                    *known = Some(byte);
                }
            }
            "copy" | "fill" => memory.forget(hex(&event, "dst").expect("it is written"), size),
            "malloc" | "calloc" | "realloc" | "free" | "mmap" | "mremap" | "munmap" => {
                // What the function does inside of itself is not recorded: to the block, its neighbours' heads, and below
                // the stack's end.
                memory.forget(addr.saturating_sub(16), size + 48);
                memory.forget(hex(&event, "old_addr").unwrap_or(16).saturating_sub(16), 48);
                memory.forget(stack.saturating_sub(1 << 16), 1 << 16);
            }
            _ => {}
        }
    }
    compared
}

#[test]
fn loads_of_gzip_read_what_was_stored() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("text");
    let text: String = (0..400).map(|line| format!("line {line} of {}\n", line * line)).collect();
    std::fs::write(&file, text).expect("a file can be written");
    let compared = replay(&["gzip", "-k", file.to_str().expect("UTF-8")]);
    assert!(compared > 500_000, "only {compared} bytes were compared");
}

#[test]
fn loads_of_sqlite_read_what_was_stored() {
    let compared = replay(&[
        "sqlite3",
        ":memory:",
        "create table t(a integer primary key, b text);",
        "insert into t values (1, 'one'), (2, 'two'), (3, 'three');",
        "select count(*), sum(a), max(b) from t where b like '%o%';",
    ]);
    assert!(compared > 500_000, "only {compared} bytes were compared");
}

/// A signal every 150 microseconds: some come after a store and before the look at what it wrote.
const INTERRUPTED: &str = r#"
#include <signal.h>
#include <string.h>
#include <sys/time.h>

static volatile long ticks;
static volatile unsigned long words[64];

static void on_tick(int signal)
{
    (void)signal;
    ticks++;
}

int main(void)
{
    struct sigaction action;
    struct itimerval every = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
    memset(&action, 0, sizeof action);
    action.sa_handler = on_tick;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &every, 0);
    for (unsigned long i = 1; ticks < 300 && i < 60000; i++) {
        words[i & 63] = i * 0x9e3779b97f4a7c15;
        words[i + 7 & 63] ^= i;
    }
    setitimer(ITIMER_REAL, &never, 0);
    return 0;
}
"#;

/// (The block ended there, with what the buffer held before as the bytes of the store.)
#[test]
fn a_signal_after_a_store_does_not_lose_its_bytes() {
    let program = TestProgram::from_source("interrupted.c", INTERRUPTED, &["-O1"]);
    let recording =
        record(&["--tracer=translate", "--data"].map(str::to_owned), &program.command_line(), b"");
    assert_eq!(recording.outcome.status, 0, "{}", recording.outcome.err());
    let (mut memory, mut compared) = (HashMap::new(), 0);
    for event in recording.trace.events().iter().filter(|event| event["variable"] == "words") {
        let (addr, data) = (hex(event, "addr"), event["data"].as_str().map(str::to_owned));
        assert!(data.is_some(), "{event}");
        let before = memory.insert(addr, data.clone());
        if event["type"] == "load" && before.is_some() {
            compared += 1;
            assert_eq!(data, before.flatten(), "{event}");
        }
    }
    assert!(compared > 1000, "only {compared} loads were compared");
}
