//! Whole machines: a boot sector with its accesses counted by hand,
//! Debian's kernel with a shell and a workload, and mistakes of users.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use e2e::{Finished, Trace, Viewer, fits_schema, guest_command, memtap, run, spawn, variables};
use serde_json::Value;

/// Arguments of a machine without an operating system.
const BARE: &[&str] = &["-nodefaults", "-display", "none", "-no-reboot", "-m", "16"];

/// Writes 1,000 words from 0x8000 on, reads 100 of them, increments the word at 0x9000 ten times, and resets the machine
/// by a fault that has no handler.
#[rustfmt::skip]
const BOOT_SECTOR: &[u8] = &[
    0xfa,                         // cli
    0x31, 0xc0, 0x8e, 0xc0, 0x8e, 0xd8, // xor ax, ax; mov es, ax; mov ds, ax
    0xbf, 0x00, 0x80,             // mov di, 0x8000
    0xb9, 0xe8, 0x03,             // mov cx, 1000
    0x89, 0xc8, 0xab, 0xe2, 0xfb, // again: mov ax, cx; stosw; loop again
    0xbe, 0x00, 0x80,             // mov si, 0x8000
    0xb9, 0x64, 0x00,             // mov cx, 100
    0xad, 0xe2, 0xfd,             // again: lodsw; loop again
    0xb9, 0x0a, 0x00,             // mov cx, 10
    0xff, 0x06, 0x00, 0x90, 0xe2, 0xfa, // again: inc word [0x9000]; loop again
    0x0f, 0x01, 0x1e, 0xf0, 0x8f, // lidt [0x8ff0]: zeros
    0xcc,                         // int3
];

fn boot_disk(dir: &Path) -> String {
    let mut image = BOOT_SECTOR.to_vec();
    image.resize(1_474_560, 0);
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    let path = dir.join("floppy");
    std::fs::write(&path, image).expect("the directory is ours");
    format!("if=floppy,format=raw,file={}", path.display())
}

/// Records a machine that ends by itself.
fn record(output: &Path, options: &[&str], command: &[&str]) -> Finished {
    let mut line = Command::new(memtap());
    line.args(["record", "--quiet", "--tracer", "qemu", "-o"])
        .arg(output)
        .args(options)
        .arg("--")
        .args(command);
    run(&mut line, b"")
}

fn count(trace: &Trace, options: &[&str]) -> [usize; 3] {
    let dump = trace.ask("dump", &[&["--format", "lackey"], options].concat());
    assert_eq!(dump.status, 0, "{}", dump.err());
    let text = dump.out();
    [" L", " S", " M"].map(|letter| text.lines().filter(|line| line.starts_with(letter)).count())
}

#[test]
fn a_boot_sector_is_counted() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let disk = boot_disk(dir.path());
    let file = dir.path().join("trace");
    let command = [&["qemu-system-x86_64"], BARE, &["-drive", &disk]].concat();
    let outcome = record(&file, &["--data", "--read-data", "--flow"], &command);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let trace = Trace::at(file);
    assert_eq!(trace.number("gaps"), 0);
    // Of the sector's own instructions: the firmware uses the same memory.
    let own = |options: &[&str]| {
        let dump = trace.ask("dump", &[&["--format", "jsonl", "--stream", "accesses"], options].concat());
        assert_eq!(dump.status, 0, "{}", dump.err());
        let events = dump.out();
        let events = events.lines().map(|line| line.parse::<Value>().expect("JSON"));
        let ip = |event: &Value| {
            let text = event["ip"].as_str().expect("an instruction").trim_start_matches("0x").to_owned();
            u64::from_str_radix(&text, 16).expect("hexadecimal")
        };
        events.filter(|event| (0x7c00..0x7e00).contains(&ip(event))).collect::<Vec<_>>()
    };
    let words = own(&["--range", "0x8000..0x87d0"]);
    let of = |kind: &str| words.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((of("store"), of("load"), words.len()), (1000, 100, 1100), "{:?}", words.first());
    let cell = own(&["--range", "0x9000..0x9002"]);
    assert_eq!(cell.len(), 10);
    assert!(cell.iter().all(|event| event["type"] == "modify"), "{cell:?}");
    // An instruction a cycle: mov, stosw, loop.
    let cycles: Vec<u64> = words.iter().map(|event| event["cycle"].as_u64().expect("a cycle")).collect();
    assert!(cycles[..1000].windows(2).all(|two| two[1] - two[0] == 3), "{:?}", &cycles[..10]);
    assert!(cycles[1000..].windows(2).all(|two| two[1] - two[0] == 2), "{:?}", &cycles[1000..1010]);
    // Each turn of a loop is a block, and it takes up where the one before it ended.
    let flow = trace.flow();
    let blocks: Vec<(u64, u64, u64)> =
        flow.iter().map(|entered| (entered.cycle, entered.ip, entered.instructions)).collect();
    assert!(blocks.windows(2).all(|two| two[1].0 <= two[0].0 + two[0].2 && two[1].0 >= two[0].0));
    assert_eq!(
        blocks.iter().filter(|(_, ip, _)| *ip == 0x7c0d).count(),
        999,
        "the first turn has its start before"
    );
    let image = dir.path().join("image");
    let memory = |options: &[&str]| {
        let written = trace.ask("memory", &[options, &["-o", image.to_str().expect("text")]].concat());
        assert_eq!(written.status, 0, "{}", written.err());
        std::fs::read(&image).expect("it was written")
    };
    let expected: Vec<u8> = (0..1000u16).flat_map(|number| (1000 - number).to_le_bytes()).collect();
    assert_eq!(memory(&["--physical", "0x8000..0x87d0"]), expected);
    assert_eq!(memory(&["--physical", "0x9000..0x9002"]), [10, 0]);
    is_seen(&trace, cell[0]["cycle"].as_u64().expect("a cycle"));
    // After half of the stores, the other half is as it was before.
    let half = cycles[500].to_string();
    let (before, first) = (cycles[0].to_string(), memory(&["--physical", "0x8000..0x87d0", "--at", &half]));
    let before = memory(&["--physical", "0x8000..0x87d0", "--at", &before]);
    assert_eq!(first[..1000], expected[..1000]);
    assert_eq!(first[1000..], before[1000..]);
}

/// `memtap view` of the boot sector: its map is of physical memory, which lies at its virtual addresses.
fn is_seen(trace: &Trace, first: u64) {
    let viewer = Viewer::of(&trace.path);
    let facts = viewer.json("trace");
    assert_eq!(facts["machine"], true);
    let process = &facts["processes"][0];
    let number = |key: &str| process[key].as_u64().expect("a number");
    assert_eq!(number("loads") + number("stores") + number("modifies"), trace.number("accesses"));
    let names = process["runs"].as_array().expect("an array").iter().map(|run| run["name"].as_str());
    let names: BTreeSet<_> = names.collect();
    assert_eq!(names, [Some("devices"), Some("physical memory")].into());
    let dump =
        trace.ask("dump", &["--format", "jsonl", "--stream", "accesses", "--range", "0x9000..0x9002"]).out();
    let events = dump.lines().map(|line| line.parse::<Value>().expect("JSON"));
    let begins = |event: &Value| event["addr"] == "0x9000" || event["addr"] == "0x9001";
    let expected = events.filter(begins).count() as u64;
    let cell = "low=0x9000&high=0x9002";
    assert_eq!(viewer.tile(&format!("{cell}&width=1&height=1")).sum(), expected);
    for by in ["function", "variable", "process"] {
        let table = viewer.json(&format!("table?by={by}&{cell}"));
        let total =
            ["loads", "stores", "modifies"].map(|key| table["total"][key].as_u64().expect("a number"));
        assert_eq!(total.iter().sum::<u64>(), expected, "{by}");
        assert!(total[2] >= 10 && table["rows"][0]["region"] == "boot", "{by}: {table}");
    }
    let found = &viewer.json(&format!("access?{cell}&at={first}"))["found"];
    assert_eq!(
        (&found["addr"], &found["kind"], &found["cycle"]),
        (&"0x9000".into(), &"modify".into(), &first.into())
    );
    for other in ["table?by=line", "flame?", "lifetimes?", "place?name=x"] {
        assert!([400, 404].contains(&viewer.get(other).status), "{other}");
    }
}

#[test]
fn ranges_kinds_and_cycles_are_kept() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let disk = boot_disk(dir.path());
    let command = [&["qemu-system-x86_64"], BARE, &["-drive", &disk]].concat();
    let make = |name: &str, options: &[&str]| {
        let file = dir.path().join(name);
        let outcome = record(&file, options, &command);
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        Trace::at(file)
    };
    let trace = make("physical", &["--physical", "0x9000..0x9002"]);
    let [loads, stores, modifies] = count(&trace, &[]);
    assert_eq!(count(&trace, &["--range", "0x9000..0x9002"]), [loads, stores, modifies]);
    assert!(modifies >= 10);
    let trace = make("stores", &["--virtual-range", "0x8000..0x87d0", "--only", "stores"]);
    let [loads, stores, modifies] = count(&trace, &[]);
    assert_eq!((loads, modifies), (0, 0));
    assert!(stores >= 1000, "{stores}");
    let trace = make("cycles", &["--cycles", "1000..2000"]);
    let events = trace.events();
    let cycles = events.iter().filter(|event| event.get("size").is_some());
    assert!(cycles.clone().count() > 0);
    assert!(cycles.clone().all(|event| (1000..2600).contains(&event["cycle"].as_u64().expect("a cycle"))));
    assert!(trace.number("instructions") > 2000);
}

#[test]
fn two_machines_write_to_one_server() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("the directory is ours");
    let url = format!("unix:{}", dir.path().join("socket").display());
    let mut server = spawn(
        Command::new(memtap()).args(["serve", "--listen", &url, "--root"]).arg(&root).stderr(Stdio::piped()),
    );
    let mut lines = BufReader::new(server.stderr.take().expect("piped above")).lines();
    lines.next().expect("the server says that it listens").expect("text");
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    let disk = format!("{},readonly=on", boot_disk(dir.path()));
    std::thread::scope(|scope| {
        for name in ["one", "two"] {
            let (url, disk) = (&url, &disk);
            scope.spawn(move || {
                let command = [&["qemu-system-x86_64"], BARE, &["-drive", disk]].concat();
                let outcome = record(Path::new(name), &["--data", "--server", url], &command);
                assert_eq!(outcome.status, 0, "{}", outcome.err());
            });
        }
    });
    let _ = Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
    server.wait().expect("a child of ours");
    for name in ["one", "two"] {
        let trace = Trace::at(root.join(name));
        let checked = trace.ask("check", &[]);
        assert_eq!(checked.status, 0, "{}", checked.err());
        let image = dir.path().join("image");
        let image = image.to_str().expect("text");
        let memory = trace.ask("memory", &["--physical", "0x9000..0x9002", "-o", image]);
        assert_eq!(memory.status, 0, "{}", memory.err());
        assert_eq!(std::fs::read(image).expect("it was written"), [10, 0]);
    }
}

#[test]
fn what_is_wrong_is_one_line() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("trace");
    let check = |command: &[&str], words: &str| {
        let outcome = record(&file, &[], command);
        assert_eq!(outcome.status, 1, "{command:?}: {}", outcome.err());
        let error = outcome.err();
        let last = error.lines().last().expect("it says something");
        assert!(last.starts_with("memtap: ") && last.contains(words), "{command:?}: {error}");
        assert!(!file.exists(), "{command:?} leaves a file");
    };
    check(&["qemu-system-not-there"], "qemu-system-not-there");
    check(&["true"], "not a QEMU that runs a whole machine");
    check(&["qemu-system-x86_64", "-enable-kvm"], "KVM");
    check(&["qemu-system-x86_64", "-accel", "kvm"], "KVM");
    check(&["qemu-system-x86_64", "-cpu", "host"], "KVM");
    check(&["qemu-system-x86_64", "-no-such-option"], "before the machine ran");
    // A QEMU without plugins.
    let script = dir.path().join("qemu-plain");
    std::fs::write(&script, "#!/bin/sh\necho 'usage: qemu -machine'\n").expect("the directory is ours");
    let made = run(Command::new("chmod").arg("755").arg(&script), b"");
    assert_eq!(made.status, 0);
    check(&[script.to_str().expect("text")], "without plugins");
    let trace = dir.path().join("sector");
    let disk = boot_disk(dir.path());
    let command = [&["qemu-system-x86_64"], BARE, &["-drive", &disk]].concat();
    assert_eq!(record(&trace, &[], &command).status, 0);
    let memory = Trace::at(trace).ask("memory", &["-o", file.to_str().expect("text")]);
    assert_eq!(memory.status, 1);
    assert!(memory.err().contains("--data"), "{}", memory.err());
}

/// A recording that goes on.
struct Running {
    child: Child,
    errors: ChildStderr,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Running {
    fn start(output: &Path, options: &[&str], command: &[String]) -> Self {
        let mut child = Command::new(memtap())
            .args(["record", "--quiet", "--tracer", "qemu", "-o"])
            .arg(output)
            .args(options)
            .arg("--")
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("memtap can be started");
        let lines = BufReader::new(child.stdout.take().expect("piped above")).lines();
        let errors = child.stderr.take().expect("piped above");
        Self { child, errors, lines }
    }

    /// Reads what the guest prints, up to a line with these words.
    fn wait_for(&mut self, words: &str) -> String {
        let mut text = String::new();
        for line in self.lines.by_ref() {
            let line = line.expect("text");
            text += &line;
            text.push('\n');
            if line.contains(words) {
                return text;
            }
        }
        panic!("the guest did not say {words:?}: {text}");
    }

    fn end(mut self) -> Finished {
        let stdout = self.lines.by_ref().map_while(Result::ok).collect::<Vec<_>>().join("\n").into_bytes();
        let mut stderr = Vec::new();
        std::io::Read::read_to_end(&mut self.errors, &mut stderr).expect("a pipe can be read");
        let status = self.child.wait().expect("a child of ours");
        Finished { stdout, stderr, status: status.code().unwrap_or(-1) }
    }
}

impl Drop for Running {
    /// A test that fails leaves no machine running: QEMU ends with the recorder's own signal.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
            let _ = self.child.wait();
        }
    }
}

/// QEMU's control socket.
struct Monitor {
    input: std::io::Lines<BufReader<UnixStream>>,
    output: UnixStream,
}

impl Monitor {
    fn connect(path: &Path) -> Self {
        let socket = (0..600)
            .find_map(|_| {
                UnixStream::connect(path).ok().or_else(|| {
                    std::thread::sleep(Duration::from_millis(100));
                    None
                })
            })
            .expect("QEMU listens");
        let output = socket.try_clone().expect("a socket can be shared");
        let mut monitor = Self { input: BufReader::new(socket).lines(), output };
        monitor.input.next().expect("QEMU greets").expect("text");
        monitor.ask(r#"{"execute":"qmp_capabilities"}"#);
        monitor
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.output, "{command}").expect("QEMU listens");
        loop {
            let line = self.input.next().expect("QEMU answers").expect("text");
            assert!(!line.contains("\"error\""), "{command}: {line}");
            if line.contains("\"return\"") {
                return line;
            }
        }
    }

    /// Writes the state of the machine, which is stopped then.
    fn save(&mut self, path: &Path) {
        let uri = format!("exec:cat > {}", path.display());
        self.ask(&format!(r#"{{"execute":"migrate","arguments":{{"uri":"{uri}"}}}}"#));
        for _ in 0..600 {
            let state = self.ask(r#"{"execute":"query-migrate"}"#);
            assert!(!state.contains("\"failed\""), "{state}");
            if state.contains("\"completed\"") {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the machine's state was not written in a minute");
    }

    fn dump(&mut self, path: &Path, range: &Range<u64>) {
        let (start, bytes) = (range.start, range.end - range.start);
        self.ask(&format!(
            r#"{{"execute":"pmemsave","arguments":{{"val":{start},"size":{bytes},"filename":"{}"}}}}"#,
            path.display()
        ));
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    since.as_nanos() as u64
}

/// The first point at which all of memory is known after that time, from a trace that is being written.
fn point_after(trace: &Trace, time_ns: u64) -> u64 {
    for _ in 0..600 {
        // While its first frames are being written, it is no trace yet.
        let points = run(Command::new(memtap()).args(["memory", "--points"]).arg(&trace.path), b"");
        let text = points.out();
        let found = text.lines().find_map(|line| {
            let (cycle, time) = line.split_once(' ')?;
            (time.parse::<u64>().ok()? >= time_ns).then(|| cycle.parse().ok())?
        });
        if let Some(cycle) = found {
            return cycle;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("no point after {time_ns}");
}

const RAM: u64 = 128 << 20;

#[test]
fn a_boot_is_recorded_whole() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("trace");
    let qmp = dir.path().join("qmp");
    let mut command = guest_command(dir.path(), &["wait_here"]);
    command.extend(["-qmp".into(), format!("unix:{},server=on,wait=off", qmp.display())]);
    let mut running = Running::start(&file, &["--data", "--only", "stores"], &command);
    let mut monitor = Monitor::connect(&qmp);
    let trace = Trace::at(file.clone());
    // Stops at points that are different each time, and at the end.
    let mut points = Vec::new();
    let mut seed = now_ns();
    // Shown where the test fails.
    println!("seed {seed}");
    for number in 0..4 {
        if number < 3 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_millis(500 + (seed >> 33) % 4000));
            // A machine that goes on is often met by an interrupt before its next instruction.
            for _ in 0..20 {
                monitor.ask(r#"{"execute":"stop"}"#);
                monitor.ask(r#"{"execute":"cont"}"#);
                std::thread::sleep(Duration::from_millis(10));
            }
        } else {
            running.wait_for("guest: done");
        }
        monitor.ask(r#"{"execute":"stop"}"#);
        let cycle = point_after(&trace, now_ns());
        let dump = dir.path().join(format!("dump{number}"));
        monitor.dump(&dump, &(0..RAM));
        points.push((cycle, dump));
        if number < 3 {
            monitor.ask(r#"{"execute":"cont"}"#);
        }
    }
    writeln!(monitor.output, r#"{{"execute":"quit"}}"#).expect("QEMU listens");
    let outcome = running.end();
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    assert_eq!(outcome.err(), "");
    // Memory at the stops, in one pass.
    let images: Vec<_> = (0..4).map(|number| dir.path().join(format!("image{number}"))).collect();
    let mut rebuild = Command::new(memtap());
    rebuild.arg("memory").arg(&file);
    for ((cycle, _), image) in points.iter().zip(&images) {
        rebuild.args(["--at", &cycle.to_string(), "-o"]).arg(image);
    }
    let rebuilt = run(&mut rebuild, b"");
    assert_eq!((rebuilt.status, rebuilt.err()), (0, String::new()));
    for ((cycle, dump), image) in points.iter().zip(&images) {
        same_memory(dump, image, cycle);
    }
    let touched = std::fs::read(&images[3]).expect("ours").iter().filter(|&&byte| byte != 0).count();
    assert!(touched > 8 << 20, "{touched}");
    says_who(&trace, dir.path());
}

/// So much memory that a part of it lies above 4 GiB, where the kernel takes memory from first.
#[test]
fn memory_beyond_four_gibibytes_is_known() {
    const LAST: Range<u64> = 0x1_3000_0000..0x1_4000_0000;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("trace");
    let qmp = dir.path().join("qmp");
    let mut command = guest_command(dir.path(), &["wait_here"]);
    let memory = command.iter().position(|word| word == "-m").expect("it has memory");
    command[memory + 1] = "4G".into();
    command.extend(["-qmp".into(), format!("unix:{},server=on,wait=off", qmp.display())]);
    let mut running = Running::start(&file, &["--data", "--only", "stores"], &command);
    let mut monitor = Monitor::connect(&qmp);
    let trace = Trace::at(file);
    running.wait_for("guest: done");
    monitor.ask(r#"{"execute":"stop"}"#);
    let cycle = point_after(&trace, now_ns()).to_string();
    let (dump, image) = (dir.path().join("dump"), dir.path().join("image"));
    monitor.dump(&dump, &LAST);
    writeln!(monitor.output, r#"{{"execute":"quit"}}"#).expect("QEMU listens");
    let outcome = running.end();
    assert_eq!((outcome.status, outcome.err()), (0, String::new()));
    assert_eq!(trace.number("gaps"), 0);
    let range = format!("{}..{}", LAST.start, LAST.end);
    let options = ["--at", &cycle, "--physical", &range, "-o", image.to_str().expect("text")];
    let rebuilt = trace.ask("memory", &options);
    assert_eq!((rebuilt.status, rebuilt.err()), (0, String::new()));
    let got = same_memory(&dump, &image, &cycle);
    let touched = got.chunks(4096).filter(|page| **page != [0; 4096]).count();
    assert!(touched > 2048, "{touched} pages");
    let beyond = trace.ask("memory", &["--physical", "0x140000000..0x140000001", "-o", "-"]);
    assert_eq!(beyond.status, 1, "{}", beyond.err());
    let report = trace.ask("report", &["--by", "process", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&report.out()).expect("JSON");
    let workload = rows.iter().find(|row| row["name"] == "workload" && row["mode"] == "user");
    assert!(workload.expect("it ran")["stores"].as_u64() >= Some(65_536), "{rows:?}");
}

/// Recorded from a state on that a QEMU without memtap saved: all of memory and the processes are known from there on.
#[test]
fn a_machine_goes_on_from_a_saved_state() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (file, state) = (dir.path().join("trace"), dir.path().join("state"));
    let machine = guest_command(dir.path(), &["wait_here"]);
    let with_monitor = |name: &str, more: &[String]| -> Vec<String> {
        let monitor = ["-qmp".into(), format!("unix:{},server=on,wait=off", dir.path().join(name).display())];
        [&machine[..], &monitor, more].concat()
    };
    let command = with_monitor("first", &[]);
    let mut plain = Command::new(&command[0]);
    let mut plain = spawn(plain.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::piped()));
    let mut lines = BufReader::new(plain.stdout.take().expect("piped above")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("guest: done")));
    let mut monitor = Monitor::connect(&dir.path().join("first"));
    monitor.ask(r#"{"execute":"stop"}"#);
    monitor.save(&state);
    writeln!(monitor.output, r#"{{"execute":"quit"}}"#).expect("QEMU listens");
    assert!(plain.wait().expect("a child of ours").success());
    let incoming = ["-incoming".into(), format!("exec:cat {}", state.display())];
    let running = Running::start(&file, &["--data"], &with_monitor("second", &incoming));
    let mut monitor = Monitor::connect(&dir.path().join("second"));
    let trace = Trace::at(file.clone());
    while monitor.ask(r#"{"execute":"query-status"}"#).contains("inmigrate") {
        std::thread::sleep(Duration::from_millis(100));
    }
    monitor.ask(r#"{"execute":"cont"}"#);
    // What it waits with is a program that it calls again and again.
    let calls_a_program = |trace: &Trace| {
        let tasks = trace.ask("dump", &["--stream", "tasks"]).out();
        tasks.lines().any(|line| line.contains(" exec ") && line.ends_with(" sleep"))
    };
    assert!((0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(200));
        calls_a_program(&trace)
    }));
    monitor.ask(r#"{"execute":"stop"}"#);
    let cycle = point_after(&trace, now_ns()).to_string();
    let dump = dir.path().join("dump");
    monitor.dump(&dump, &(0..RAM));
    writeln!(monitor.output, r#"{{"execute":"quit"}}"#).expect("QEMU listens");
    let outcome = running.end();
    assert_eq!((outcome.status, outcome.err()), (0, String::new()));
    assert_eq!(trace.number("gaps"), 0);
    let image = dir.path().join("image");
    let rebuilt = trace.ask("memory", &["--at", &cycle, "-o", image.to_str().expect("text")]);
    assert_eq!((rebuilt.status, rebuilt.err()), (0, String::new()));
    same_memory(&dump, &image, &cycle);
    let functions = trace.ask("report", &["--by", "function", "--json", "--all"]);
    let rows: Vec<Value> = serde_json::from_str(&functions.out()).expect("JSON");
    assert!(rows.iter().any(|row| row["name"] == "do_syscall_64" && row["region"] == "kernel"), "{rows:?}");
}

/// Checks that an image of the memory at a cycle is what QEMU wrote of it then; returns its bytes.
fn same_memory(dump: &Path, image: &Path, cycle: &dyn Display) -> Vec<u8> {
    let (expected, got) = (std::fs::read(dump).expect("QEMU wrote it"), std::fs::read(image).expect("ours"));
    assert_eq!(expected.len(), got.len());
    let mut different = (0..expected.len()).filter(|&at| expected[at] != got[at]);
    if let Some(first) = different.next() {
        let last = different.next_back().unwrap_or(first);
        panic!("at cycle {cycle}, bytes differ from {first:#x} to {last:#x}");
    }
    got
}

/// Stores of a `fill` in the guest's `tests/guest/moved.c`.
const FILLED: u64 = 33 * 1024;

/// The processes of the guest, and the other commands.
fn says_who(trace: &Trace, dir: &Path) {
    assert_eq!(trace.number("gaps"), 0);
    let total = trace.number("accesses");
    let report = trace.ask("report", &["--by", "process", "--json"]);
    assert_eq!(report.status, 0, "{}", report.err());
    fits_schema("stat", &trace.ask("stat", &["--json"]).out());
    let rows = fits_schema("report-process", &report.out());
    let rows = rows.as_array().expect("an array");
    let sum = |row: &Value| {
        ["loads", "stores", "modifies"].map(|key| row[key].as_u64().expect(key)).iter().sum::<u64>()
    };
    assert_eq!(rows.iter().map(sum).sum::<u64>(), total);
    for (name, mode) in [
        ("init", "user"),
        ("init", "kernel"),
        ("sh", "user"),
        ("workload", "user"),
        ("workload", "kernel"),
        ("sort", "user"),
    ] {
        assert!(rows.iter().any(|row| row["name"] == name && row["mode"] == mode), "{name} {mode}: {rows:?}");
    }
    let workload = rows.iter().find(|row| row["name"] == "workload" && row["mode"] == "user");
    assert!(workload.expect("just found").get("stores").and_then(Value::as_u64) >= Some(65_536));
    let tasks = trace.ask("dump", &["--stream", "tasks"]).out();
    let objects = trace.ask("dump", &["--stream", "tasks", "--format", "jsonl"]).out();
    assert_eq!(objects.lines().count(), tasks.lines().count());
    assert!(objects.lines().all(|line| line.starts_with('{') && line.contains("\"type\":\"task\"")));
    for change in ["create", "exec", "exit", "switch"] {
        // A process is made by a shell, and called after its program from then on.
        let name = if change == "create" { " sh" } else { " workload" };
        assert!(tasks.lines().any(|line| line.contains(change) && line.ends_with(name)), "{change}: {tasks}");
    }
    let markers = trace.ask("dump", &["--stream", "markers", "--format", "jsonl"]).out();
    assert!(markers.lines().any(|line| line.contains("\"7\"")), "{markers}");
    // Names: the kernel's own, and those of a program whose file is given.
    let programs = ["workload", "moved"].map(|name| dir.join(name).to_str().expect("text").to_owned());
    let unused = std::env::current_exe().expect("this program has a file").to_str().expect("text").to_owned();
    let mut options = vec!["--json".to_owned(), "--all".to_owned()];
    for program in programs.iter().chain([&unused]) {
        options.extend(["--guest-program".to_owned(), program.clone()]);
    }
    let named = |by: &str| -> Vec<Value> {
        let options: Vec<&str> = ["--by", by].into_iter().chain(options.iter().map(String::as_str)).collect();
        let report = trace.ask("report", &options);
        assert_eq!(report.status, 0, "{}", report.err());
        let said: Vec<String> = report.err().lines().map(str::to_owned).collect();
        assert!(
            said.len() == 1 && said[0].contains(&unused) && said[0].contains("did not execute"),
            "{said:?}"
        );
        serde_json::from_str(&report.out()).expect("JSON")
    };
    let stores = |rows: &[Value], name: &str, mode: &str| -> u64 {
        let row = rows.iter().find(|row| row["name"] == name && row["region"] == mode);
        row.unwrap_or_else(|| panic!("no {name}"))["stores"].as_u64().expect("a number")
    };
    let functions = named("function");
    assert_eq!(functions.iter().map(sum).sum::<u64>(), total);
    assert!(stores(&functions, "main", "user") >= 65_536);
    assert!(stores(&functions, "do_syscall_64", "kernel") > 0);
    let variables = named("variable");
    assert_eq!(stores(&variables, "table", "user"), 65_536);
    // Of a program that lies where the kernel chose to put it, elsewhere each time that it runs, and of its children.
    let of = |rows: &[Value], name: &str, key: &str| -> u64 {
        let rows = rows.iter().filter(|row| row["name"] == name && row["region"] == "user");
        rows.map(|row| row[key].as_u64().expect("a number")).sum()
    };
    assert_eq!(of(&functions, "fill", "stores"), 4 * FILLED);
    assert_eq!(of(&variables, "cells", "stores"), 4 * FILLED);
    let by_process = named("process,function");
    let moved = by_process.iter().filter(|row| row["name"] == "moved" && row["function"] == "fill");
    assert_eq!(moved.map(|row| row["stores"].as_u64()).collect::<Vec<_>>(), [Some(FILLED); 4]);
    for by in ["variable,function", "function,variable"] {
        let pairs = named(by);
        assert_eq!(pairs.iter().map(sum).sum::<u64>(), total);
        let of = |variable: &str, function: &str| -> Vec<Option<u64>> {
            let rows = pairs.iter().filter(|row| row["variable"] == variable && row["function"] == function);
            rows.map(|row| row["stores"].as_u64()).collect()
        };
        assert_eq!(of("table", "main"), [Some(65_536)], "{by}");
        assert_eq!(of("cells", "fill"), [Some(4 * FILLED)], "{by}");
    }
    let page = dir.join("page.html");
    let written = trace.ask(
        "report",
        &[
            "--html",
            page.to_str().expect("text"),
            "--guest-program",
            &programs[0],
            "--guest-program",
            &programs[1],
        ],
    );
    assert_eq!(written.status, 0, "{}", written.err());
    let page = std::fs::read_to_string(page).expect("it was written");
    for name in ["do_syscall_64", "table", "fill", "cells"] {
        assert!(page.contains(&format!("\"{name}\"")), "{name}");
    }
    assert!(!page.contains("[unknown]"));
    assert!(page.contains("\"label\":\"physical memory  0x"));
    let lines = trace.ask("dump", &["--stream", "physical", "--range", "1000000..1000100"]).out();
    assert_eq!(lines.lines().count(), 100);
    assert!(lines.lines().all(|line| line.contains(" cpu 0 ") && line.contains(" physical 0x")), "{lines}");
    assert!(lines.contains(" data "), "{lines}");
    let picture = dir.join("map.svg");
    let heatmap = trace.ask("heatmap", &["-o", picture.to_str().expect("text")]);
    assert_eq!(heatmap.status, 0, "{}", heatmap.err());
    assert!(std::fs::read_to_string(picture).expect("it was written").contains("<svg"));
    refuses(trace, "flame", &["-o", "-"], "record without --only");
    for part in ["--name=a*", "--sort=loads", "--cycles=0..9", "--range=0..9", "--thread=0"] {
        let refused = trace.ask("report", &["--by", "process,function", part]);
        assert_eq!(refused.status, 2, "{part}: {}", refused.err());
    }
    for part in ["--cycles=0..9", "--range=0..9", "--thread=0"] {
        for by in ["function", "variable", "variable,function"] {
            let refused = trace.ask("report", &["--by", by, part]);
            assert_eq!(refused.status, 2, "{by} {part}: {}", refused.err());
        }
    }
    for by in ["function,thread", "line", "region", "type", "field", "local", "allocation"] {
        refuses(trace, "report", &["--by", by], "of a machine");
    }
    refuses(trace, "report", &["--unused"], "has no allocations");
    for command in ["errors", "layout", "lines", "rtvm"] {
        refuses(trace, command, &[], "is the trace of a machine");
    }
    let no_program = dir.join("no-program");
    std::fs::write(&no_program, "text").expect("it can be written");
    let no_program = no_program.to_str().expect("text");
    let refused = trace.ask("report", &["--by", "function", "--guest-program", no_program]);
    assert_eq!(refused.status, 1, "{}", refused.err());
    assert_eq!(refused.err().matches(no_program).count(), 1, "{}", refused.err());
    assert!(refused.err().contains("not a 64-bit ELF file"), "{}", refused.err());
}

/// Asserts that a command refuses a trace with these words.
fn refuses(trace: &Trace, command: &str, options: &[&str], words: &str) {
    let outcome = trace.ask(command, options);
    assert_eq!(outcome.status, 1, "{command} {options:?}: {}", outcome.err());
    assert!(outcome.err().contains(words), "{command} {options:?}: {}", outcome.err());
}

/// What the kernel calls to get ready it says itself when it is asked to (initcall_debug).
#[test]
fn who_called_whom_is_as_the_kernel_says() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("trace");
    let command = guest_command(dir.path(), &["initcall_debug", "loglevel=8"]);
    let line: Vec<&str> = command.iter().map(String::as_str).collect();
    let outcome = record(&file, &[], &line);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let said = outcome.out();
    let name = |line: &str| Some(line.split_once("calling ")?.1.trim_start().split_once('+')?.0.to_owned());
    let said: BTreeSet<String> = said.lines().filter_map(name).collect();
    assert!(said.len() > 400, "{}", outcome.out());
    let trace = Trace::at(file);
    let (accesses, instructions) = (trace.number("accesses"), trace.number("instructions"));

    let report = trace.ask("report", &["--by", "initcall", "--json"]);
    assert_eq!(report.status, 0, "{}", report.err());
    let rows = fits_schema("report-initcall", &report.out());
    let rows = rows.as_array().expect("an array");
    let sure: Vec<&str> = rows
        .iter()
        .filter(|row| row["may_jump"] == false)
        .map(|row| row["name"].as_str().expect("a name"))
        .collect();
    // A few that access nothing jump to one that could be an initcall itself, by where it lies.
    let unsaid: Vec<&&str> = sure.iter().filter(|name| !said.contains(**name)).collect();
    assert!(sure.len() > 300 && unsaid.len() * 50 < sure.len(), "{unsaid:?}");
    let of = |row: &Value| row["instructions"].as_u64().expect("a number");
    let sum: u64 = rows.iter().map(of).sum();
    assert!(sum > 10_000_000 && sum < instructions, "{sum} of {instructions}");

    let picture = dir.path().join("stacks");
    let options = ["--format", "folded", "-o", picture.to_str().expect("text")];
    let folded = trace.ask("export", &options);
    assert_eq!(folded.status, 0, "{}", folded.err());
    let stacks = std::fs::read_to_string(picture).expect("it was written");
    let count = |line: &str| line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
    assert_eq!(stacks.lines().filter_map(count).sum::<u64>(), accesses);
    for part in [
        "kernel_init;kernel_init_freeable;do_one_initcall;acpi_init;acpi_scan_init;",
        "start_kernel;setup_arch;",
        "workload;entry_SYSCALL_64;",
        "workload;[user mode] ",
    ] {
        assert!(stacks.lines().any(|line| line.contains(part)), "{part}");
    }
    // What is in a module has names, too.
    let of_module = |line: &str| line.contains(";do_one_initcall;dummy_init_module [dummy]");
    assert!(stacks.lines().any(of_module), "nothing of the module");
    for part in ["[firmware]", "[kernel's setup]", "[kernel unpacks itself]"] {
        assert!(stacks.lines().any(|line| line.starts_with(&format!("{part} "))), "{part}");
    }

    let report = trace.ask("report", &["--by", "process,function", "--json"]);
    assert_eq!(report.status, 0, "{}", report.err());
    let rows = fits_schema("report-process-names", &report.out());
    let rows = rows.as_array().expect("an array");
    let of = |row: &Value| {
        ["loads", "stores", "modifies"].map(|key| row[key].as_u64().expect(key)).iter().sum::<u64>()
    };
    assert_eq!(rows.iter().map(of).sum::<u64>(), accesses);
    assert!(rows.iter().any(|row| row["mode"] == "boot" && row["function"] == "__startup_64"), "{rows:?}");

    let lines = trace.ask("dump", &["--stream", "physical", "--range", "1000000..1000100"]).out();
    assert_eq!(lines.lines().count(), 100, "{lines}");
    refuses(&trace, "flame", &["--of", "live", "-o", "-"], "a machine's trace has no allocations");
    refuses(
        &trace,
        "export",
        &["--format", "callgrind", "-o", "-"],
        "only be written as folded, pprof or otlp",
    );
}

#[test]
fn recording_is_switched_by_the_guest() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("trace");
    let mut command = guest_command(dir.path(), &[]);
    // What the other vCPU does meanwhile is another process's.
    command.extend(["-smp".into(), "2".into()]);
    let table = variables(&dir.path().join("workload"));
    let table = &table.iter().find(|variable| variable.name == "table").expect("a variable of it").range;
    let line: Vec<&str> = command.iter().map(String::as_str).collect();
    let outcome = record(&file, &["--marked", "--process", "workload"], &line);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    assert!(outcome.out().contains("sum "), "{}", outcome.out());
    let trace = Trace::at(file);
    let range = format!("{:#x}..{:#x}", table.start, table.end);
    // Between the marks it writes each cell once, and reads none.
    assert_eq!(count(&trace, &["--range", &range]), [0, 65_536, 0]);
    let total = trace.number("accesses");
    assert!((65_536..2_000_000).contains(&total), "{total}");
    assert_eq!(trace.number("gaps"), 0);
    let report = trace.ask("report", &["--by", "process", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&report.out()).expect("JSON");
    assert!(rows.iter().all(|row| row["name"] == "workload" && row["mode"] != "boot"), "{rows:?}");
}

#[test]
fn a_machine_that_is_killed_leaves_a_trace() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (file, pid) = (dir.path().join("trace"), dir.path().join("pid"));
    let mut command = guest_command(dir.path(), &[]);
    command.extend(["-pidfile".into(), pid.display().to_string()]);
    let trace = Trace::at(file.clone());
    let running = Running::start(&file, &["--data"], &command);
    point_after(&trace, 1);
    let pid = std::fs::read_to_string(pid).expect("QEMU wrote it");
    let killed = run(Command::new("kill").args(["-KILL", pid.trim()]), b"");
    assert_eq!(killed.status, 0);
    let outcome = running.end();
    assert_eq!(outcome.status, 137, "{}", outcome.err());
    assert!(outcome.err().contains("signal 9"), "{}", outcome.err());
    let checked = trace.ask("check", &[]);
    assert_eq!(checked.status, 0, "{}", checked.err());
    assert!(trace.number("gaps") > 0);
    assert!(trace.number("accesses") > 0);
}
