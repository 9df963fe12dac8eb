//! `flame` and `export`: other tools can read the output, and the figures are those of `stat` and `report`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Recording, TestProgram, run, tool};
use serde_json::Value;

/// A directory for what is exported.
struct Exports {
    dir: tempfile::TempDir,
    recording: Recording,
}

impl Exports {
    fn of(program: &str, options: &[&str]) -> Self {
        let recording = TestProgram::named(program).record_with("translate", options);
        Self { dir: tempfile::tempdir().expect("a temporary directory"), recording }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file with a command of memtap.
    fn write(&self, command: &str, options: &[&str], name: &str) -> PathBuf {
        let path = self.path(name);
        let output = ["-o", path.to_str().expect("UTF-8")];
        let outcome = self.recording.trace.ask(command, &[options, &output].concat());
        assert_eq!((outcome.status, outcome.err().as_str()), (0, ""), "{command} {options:?}");
        path
    }

    fn export(&self, format: &str, name: &str) -> PathBuf {
        self.write("export", &["--format", format], name)
    }

    /// Names of what lies in the directory.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).expect("it is a directory");
        entries.map(|entry| entry.expect("read").file_name().to_string_lossy().into_owned()).collect()
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it was just written")
}

/// Folded stacks with their figures.
fn folded(text: &str) -> Vec<(String, u64)> {
    let line = |line: &str| {
        let (stack, figure) = line.rsplit_once(' ').expect("a stack and a figure");
        (stack.to_owned(), figure.parse().expect("a number"))
    };
    text.lines().map(line).collect()
}

/// The document as a browser has it after its scripts ran.
fn browse(page: &Path) -> String {
    let profile = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(tool("chromium"));
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
    ]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg("--virtual-time-budget=5000").arg("--dump-dom").arg(format!("file://{}", page.display()));
    let outcome = run(&mut command, b"");
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let complaints = outcome.err().lines().filter(|l| l.contains("CONSOLE")).collect::<Vec<_>>().join("\n");
    assert_eq!(complaints, "", "scripts complain");
    outcome.out()
}

#[test]
fn folded_stacks_are_who_called_whom_and_sum_to_all_accesses() {
    let exports = Exports::of("contexts.cpp", &[]);
    let stacks = folded(&text(&exports.export("folded", "stacks")));
    assert_eq!(
        stacks.iter().map(|(_, figure)| figure).sum::<u64>(),
        exports.recording.trace.number("accesses")
    );
    // A call of leaf is two accesses: the counter, and the return.
    let of = |wanted: &str| {
        stacks.iter().filter(|(stack, _)| stack == wanted).map(|(_, figure)| figure).sum::<u64>()
    };
    assert_eq!(of("main;recurse;recurse;leaf"), 4);
    assert_eq!(of("main;allocates;wrapper;leaf"), 4);
    assert_eq!(of("[signal 10];handler;leaf"), 4);
    assert_eq!(of("[another stack];coroutine;step;leaf"), 6);
    // The same on standard output.
    let again = exports.recording.trace.ask("export", &["--format", "folded", "-o", "-"]);
    assert_eq!(folded(&again.out()), stacks);
}

#[test]
fn flame_graphs_hold_all_accesses_and_open_in_a_browser() {
    let exports = Exports::of("contexts.cpp", &[]);
    let total = exports.recording.trace.number("accesses");
    let svg = exports.write("flame", &[], "flame.svg");
    let source = text(&svg).replace("http://www.w3.org/", "");
    assert!(!source.contains("http"), "it asks the network");
    let grouped = |number: u64| format!("{} {:03}", number / 1000, number % 1000);
    assert!(source.contains(&format!("<title>all: {} accesses, 100.0 % of all;", grouped(total))), "{total}");
    // Scripts draw the same frames anew: those of main's callees.
    let drawn = browse(&svg);
    assert!(drawn.contains("class=\"flame live\""), "the script did not run");
    for function in ["main", "tree", "allocates"] {
        assert!(drawn.contains(&format!("<title>{function}: ")), "{function} is not drawn");
    }
    // Within a page of somebody else it works as well.
    let page = exports.path("page.html");
    std::fs::write(&page, format!("<!DOCTYPE html><title>x</title><p>{}</p>", text(&svg))).expect("written");
    assert!(browse(&page).contains("class=\"flame live\""));
}

#[test]
fn flame_graphs_show_bytes_allocations_and_what_is_never_released() {
    let exports = Exports::of("exports.c", &[]);
    let root = |of: &str| {
        let svg = text(&exports.write("flame", &["--of", of], &format!("{of}.svg")));
        let (_, tip) = svg.split_once("<title>all: ").expect("the root has a title");
        tip.split_once(',').expect("a share follows").0.to_owned()
    };
    assert_eq!(root("allocations"), "1 716 bytes allocated");
    assert_eq!(root("live"), "1 000 bytes never released");
    assert!(root("bytes").ends_with("bytes accessed"));
    let svg = text(&exports.path("live.svg"));
    assert!(
        svg.contains(
            "<title>leaks: 1 000 bytes never released, 100.0 % of all; 100.0 % in it itself</title>"
        )
    );
}

#[test]
fn outputs_are_not_overwritten_and_never_partial() {
    let exports = Exports::of("exports.c", &[]);
    let path = exports.export("folded", "out");
    let before = text(&path);
    let name = path.to_str().expect("UTF-8").to_owned();
    for (command, options) in [("export", &["--format", "folded"][..]), ("flame", &[])] {
        let refused = exports.recording.trace.ask(command, &[options, &["-o", &name]].concat());
        assert_eq!((refused.status, refused.err().lines().count()), (1, 1), "{}", refused.err());
        assert!(
            refused.err().contains("already exists") && refused.err().contains("--force"),
            "{}",
            refused.err()
        );
        assert_eq!(text(&path), before);
    }
    let forced = exports.recording.trace.ask("export", &["--format", "folded", "-o", &name, "--force"]);
    assert_eq!(forced.status, 0, "{}", forced.err());
    let nowhere = exports.path("no/such/dir");
    let refused = exports
        .recording
        .trace
        .ask("export", &["--format", "folded", "-o", nowhere.to_str().expect("UTF-8")]);
    assert_eq!((refused.status, refused.err().lines().count()), (1, 1), "{}", refused.err());
    let trace = exports.recording.trace.path.to_str().expect("UTF-8").to_owned();
    let refused = exports.recording.trace.ask("export", &["--format", "folded", "--force", "-o", &trace]);
    assert_eq!(refused.status, 1, "the trace itself would be gone");
    let unknown = exports.recording.trace.ask("export", &["--format", "pdf", "-o", &name]);
    assert_eq!(unknown.status, 2);
    assert!(unknown.err().contains("pdf") && unknown.err().contains("folded"), "{}", unknown.err());
    assert_eq!(exports.names(), ["out"]);
}

#[test]
fn traces_without_stacks_are_refused_by_what_to_record() {
    let recording = TestProgram::named("statics.c").record_by("protect");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("out");
    let name = path.to_str().expect("UTF-8");
    for (command, options) in [("flame", &[][..]), ("export", &["--format", "folded"])] {
        let refused = recording.trace.ask(command, &[options, &["-o", name]].concat());
        assert_eq!((refused.status, refused.err().lines().count()), (1, 1), "{}", refused.err());
        assert!(refused.err().contains("--tracer translate"), "{}", refused.err());
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("it is a directory").count(), 0);
}

/// What callgrind_annotate says, without the files that it shows.
fn annotated(profile: &Path, options: &[&str]) -> String {
    let outcome = run(Command::new(tool("callgrind_annotate")).args(options).arg(profile), b"");
    assert_eq!((outcome.status, outcome.err().as_str()), (0, ""), "it complains");
    outcome.out()
}

/// The first number of the line of callgrind_annotate that ends so.
fn annotated_figure(text: &str, ending: &str) -> u64 {
    let line =
        text.lines().find(|line| line.contains(ending)).unwrap_or_else(|| panic!("{ending} in {text}"));
    let first = line.split_whitespace().next().expect("a figure");
    first.replace(',', "").parse().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn callgrind_annotate_reads_functions_lines_and_data() {
    let exports = Exports::of("exports.c", &[]);
    let profile = exports.export("callgrind", "callgrind.out");
    let trace = &exports.recording.trace;
    let own = annotated(&profile, &["--threshold=100", "--auto=no", "--show-percs=no"]);
    let totals: Vec<u64> = own
        .lines()
        .find(|line| line.ends_with("PROGRAM TOTALS"))
        .expect("totals")
        .split_whitespace()
        .map_while(|word| word.replace(',', "").parse().ok())
        .collect();
    assert_eq!(totals[..3], [trace.number("loads"), trace.number("stores"), trace.number("modifies")]);
    assert_eq!(totals[4..7], totals[..3], "each access is to some data");
    // 64 + 10 + 100 + 3 * 4 stores of bytes; each of the 6 calls returns with a load.
    let stores = annotated(
        &profile,
        &["--threshold=100", "--auto=no", "--show-percs=no", "--show=Stores", "--sort=Stores"],
    );
    assert_eq!(annotated_figure(&stores, "exports.c:touch ["), 186);
    let loads = annotated(
        &profile,
        &["--threshold=100", "--auto=no", "--show-percs=no", "--show=Loads", "--sort=Loads"],
    );
    assert_eq!(annotated_figure(&loads, "exports.c:touch ["), 6);
    let data = annotated(
        &profile,
        &["--threshold=100", "--auto=no", "--show-percs=no", "--show=DataStores", "--sort=DataStores"],
    );
    assert_eq!(annotated_figure(&data, "shared [data: bss]"), 64);
    assert_eq!(annotated_figure(&data, "<malloc@leaks+"), 10);
    let inclusive = annotated(
        &profile,
        &[
            "--inclusive=yes",
            "--threshold=100",
            "--auto=no",
            "--show-percs=no",
            "--show=Loads",
            "--sort=Loads",
        ],
    );
    // leaks returns, and so does the touch that it calls; what malloc needs is not recorded.
    assert!(annotated_figure(&inclusive, "exports.c:leaks [") >= 2, "{inclusive}");
    let file = text(&profile);
    assert!(file.contains("\ncfn=touch\ncalls=3 0\n"), "small calls touch three times: {file}");
}

#[test]
fn callgrind_counts_recursion_once() {
    let exports = Exports::of("contexts.cpp", &[]);
    let profile = exports.export("callgrind", "callgrind.out");
    let total = exports.recording.trace.number("modifies");
    let inclusive = annotated(
        &profile,
        &[
            "--inclusive=yes",
            "--threshold=100",
            "--auto=no",
            "--show-percs=no",
            "--show=Modifies",
            "--sort=Modifies",
        ],
    );
    let of = |name: &str| annotated_figure(&inclusive, &format!("contexts.cpp:{name} ["));
    assert_eq!((of("recurse"), of("tree")), (6, 1 << 10));
    assert!(of("main") <= total);
}

/// The document of DHAT's viewer with that file loaded.
fn dhat_view(exports: &Exports, profile: &Path) -> String {
    let viewer = Path::new("/usr/libexec/valgrind/dh_view.html");
    assert!(viewer.exists(), "valgrind's viewer of DHAT files is not installed");
    for name in ["dh_view.html", "dh_view.js", "dh_view.css"] {
        std::fs::copy(viewer.with_file_name(name), exports.path(name)).expect("it can be copied");
    }
    // Instead of a person who chooses the file.
    let load = format!(
        "<script>addEventListener('load', () => {{ gData = {}; buildTree(); displayTree(0, 0, 0); }});</script></body>",
        text(profile).replace('<', "\\u003c")
    );
    let page = exports.path("dh_view.html");
    std::fs::write(&page, text(&page).replace("</body>", &load)).expect("written");
    browse(&page)
}

#[test]
fn the_viewer_of_dhat_shows_what_became_of_blocks() {
    let exports = Exports::of("exports.c", &[]);
    let profile = exports.export("dhat", "dhat.out");
    let document = dhat_view(&exports, &profile);
    assert!(!document.contains("class=\"error\""), "{document}");
    assert!(document.contains("1,716 bytes"), "the total is not shown: {document}");
    let file: Value = serde_json::from_str(&text(&profile)).expect("it is JSON");
    let points = file["pps"].as_array().expect("an array").clone();
    let frames = file["ftbl"].as_array().expect("an array").clone();
    let function = |point: &Value| {
        let frame = point["fs"][0].as_u64().expect("a number") as usize;
        frames[frame].as_str().expect("a text").to_owned()
    };
    let sum = |key: &str| -> u64 { points.iter().map(|point| point[key].as_u64().expect("a number")).sum() };
    assert_eq!((sum("tb"), sum("tbk"), sum("eb"), sum("ebk")), (1716, 13, 1000, 1));
    assert_eq!(sum("gb"), 1300, "leaks' block and the one that grew");
    let of = |text: &str, bytes: u64| {
        let found = points.iter().find(|point| function(point).contains(text) && point["tb"] == bytes);
        found.unwrap_or_else(|| panic!("{text} {bytes}: {file}")).clone()
    };
    let leaked = of("leaks", 1000);
    assert_eq!((leaked["wb"].as_u64(), leaked["rb"].as_u64()), (Some(10), Some(0)));
    assert_eq!(leaked["acc"], serde_json::json!([-10, 1, -990, 0]));
    // 100 bytes are written, then read to be copied; 50 of 300 are copied on.
    let first = of("grows", 100);
    assert_eq!((first["wb"].as_u64(), first["rb"].as_u64()), (Some(100), Some(100)));
    assert_eq!(first["acc"], serde_json::json!([-100, 2]));
    let small = of("small", 48);
    assert_eq!(
        (small["tbk"].as_u64(), small["mbk"].as_u64(), small["wb"].as_u64()),
        (Some(3), Some(1), Some(12))
    );
    assert_eq!(small["acc"], serde_json::json!([-4, 3, -12, 0]));
    assert!(small["tl"].as_u64() > Some(0));
}

/// The fields of a message of protocol buffers: a number, or bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let (first, rest) = bytes.split_first().expect("a message is not cut");
            *bytes = rest;
            value |= u64::from(first & 0x7f).wrapping_shl(shift);
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        match tag & 7 {
            0 => all.push((tag >> 3, varint(&mut bytes), &[][..])),
            2 => {
                let len = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(len);
                bytes = rest;
                all.push((tag >> 3, 0, value));
            }
            other => panic!("no field of the format has wire type {other}"),
        }
    }
    all
}

fn packed(mut bytes: &[u8]) -> Vec<u64> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let len = bytes.iter().position(|byte| byte & 0x80 == 0).expect("a number ends") + 1;
        let (number, rest) = bytes.split_at(len);
        values.push(number.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f)));
        bytes = rest;
    }
    values
}

#[test]
fn pprof_has_all_accesses_and_allocations_by_stack() {
    let exports = Exports::of("exports.c", &[]);
    let path = exports.export("pprof", "profile.pb");
    let bytes = std::fs::read(path).expect("it was just written");
    let profile = fields(&bytes);
    let of =
        |field: u64| profile.iter().filter(move |(number, ..)| *number == field).map(|(_, _, bytes)| *bytes);
    let texts: Vec<&str> = of(6).map(|bytes| std::str::from_utf8(bytes).expect("UTF-8")).collect();
    assert_eq!(texts[0], "");
    let first = |bytes: &[u8], field: u64| fields(bytes).iter().find(|f| f.0 == field).map_or(0, |f| f.1);
    let kinds: Vec<&str> = of(1).map(|kind| texts[first(kind, 1) as usize]).collect();
    let samples: Vec<(Vec<u64>, Vec<u64>)> = of(2)
        .map(|sample| {
            let lists: Vec<Vec<u64>> = fields(sample).iter().map(|(_, _, bytes)| packed(bytes)).collect();
            (lists[0].clone(), lists[1].clone())
        })
        .collect();
    let sum = |kind: &str| -> u64 {
        let index = kinds.iter().position(|name| *name == kind).expect("it has that kind");
        samples.iter().map(|(_, values)| values[index]).sum()
    };
    let trace = &exports.recording.trace;
    for (kind, key) in
        [("accesses", "accesses"), ("loads", "loads"), ("stores", "stores"), ("modifies", "modifies")]
    {
        assert_eq!(sum(kind), trace.number(key), "{kind}");
    }
    assert_eq!((sum("allocated"), sum("inuse_space")), (1716, 1000));
    // Locations, functions and their names hang together.
    let functions: Vec<&str> = of(5).map(|function| texts[first(function, 2) as usize]).collect();
    let locations: Vec<&str> = of(4)
        .map(|location| {
            let line = fields(location).iter().find(|f| f.0 == 4).expect("a line").2;
            functions[first(line, 1) as usize - 1]
        })
        .collect();
    let stores = kinds.iter().position(|name| *name == "stores").expect("it has stores");
    let by_touch = samples.iter().filter(|(stack, _)| locations[stack[0] as usize - 1] == "touch");
    assert_eq!(by_touch.map(|(_, values)| values[stores]).sum::<u64>(), 186);
    let leaked = samples.iter().find(|(_, values)| values[kinds.len() - 1] > 0).expect("a block is live");
    let stack: Vec<&str> = leaked.0.iter().map(|location| locations[*location as usize - 1]).collect();
    assert_eq!(stack, ["leaks", "main"]);
    // A picture or a profile is no text for a terminal.
    let refused = trace.ask("export", &["--format", "pprof", "-o", "-"]);
    assert_eq!((refused.status, refused.err().lines().count()), (1, 1), "{}", refused.err());
}

#[test]
fn opentelemetry_reads_a_profile_for_each_kind_of_value() {
    use opentelemetry_proto::tonic::profiles::v1development::ProfilesData;
    use prost::Message as _;

    let exports = Exports::of("exports.c", &[]);
    let path = exports.export("otlp", "profiles.pb");
    let bytes = std::fs::read(path).expect("it was just written");
    let data = ProfilesData::decode(&*bytes).expect("it is of OpenTelemetry's schema");
    let all = data.dictionary.expect("a dictionary");
    let text = |number: i32| all.string_table[number as usize].as_str();
    // What is not there has the number 0.
    assert_eq!(text(0), "");
    assert_eq!(all.mapping_table[0], Default::default());
    assert_eq!(all.location_table[0], Default::default());
    assert_eq!(all.function_table[0], Default::default());
    assert_eq!(all.link_table[..], [Default::default()]);
    assert_eq!(all.attribute_table[..], [Default::default()]);
    assert_eq!(all.stack_table[0], Default::default());
    let [whose] = &data.resource_profiles[..] else { panic!("one resource") };
    let [of_memtap] = &whose.scope_profiles[..] else { panic!("one scope") };
    assert_eq!(of_memtap.scope.as_ref().expect("a scope").name, "memtap");
    let samples = |kind: &str| {
        let is_it = |profile: &&_| {
            let profile: &opentelemetry_proto::tonic::profiles::v1development::Profile = profile;
            text(profile.sample_type.expect("a kind").type_strindex) == kind
        };
        &of_memtap.profiles.iter().find(is_it).expect("it has that kind").samples
    };
    let sum = |kind: &str| samples(kind).iter().flat_map(|sample| &sample.values).sum::<i64>() as u64;
    let trace = &exports.recording.trace;
    for kind in ["accesses", "loads", "stores", "modifies"] {
        assert_eq!(sum(kind), trace.number(kind), "{kind}");
    }
    assert_eq!((sum("allocated"), sum("inuse_space")), (1716, 1000));
    let functions = |stack: i32| -> Vec<&str> {
        let places = all.stack_table[stack as usize].location_indices.iter();
        let function = |place: &i32| all.location_table[*place as usize].lines[0].function_index;
        places.map(|place| text(all.function_table[function(place) as usize].name_strindex)).collect()
    };
    let by_touch = samples("stores").iter().filter(|sample| functions(sample.stack_index)[0] == "touch");
    assert_eq!(by_touch.map(|sample| sample.values[0]).sum::<i64>(), 186);
    assert_eq!(functions(samples("inuse_space")[0].stack_index), ["leaks", "main"]);
    for location in &all.location_table[1..] {
        assert!(!text(all.mapping_table[location.mapping_index as usize].filename_strindex).is_empty());
    }
}

#[test]
fn the_firefox_profiler_gets_all_accesses_as_weights_and_the_heap() {
    let exports = Exports::of("exports.c", &[]);
    let path = exports.export("firefox", "profile.json");
    let profile: Value = serde_json::from_str(&text(&path)).expect("it is JSON");
    let threads = profile["threads"].as_array().expect("threads");
    let weights = threads.iter().flat_map(|thread| thread["samples"]["weight"].as_array().expect("weights"));
    let sum: u64 = weights.map(|weight| weight.as_u64().expect("a number")).sum();
    assert_eq!(sum, exports.recording.trace.number("accesses"));
    let strings = profile["shared"]["stringArray"].as_array().or(threads[0]["stringArray"].as_array());
    let strings = strings.expect("names");
    for function in ["main", "leaks", "grows"] {
        assert!(strings.iter().any(|name| name == function), "{function}\n{strings:#?}");
    }
    let samples = &profile["counters"][0]["samples"];
    let live: f64 = samples["count"].as_array().expect("counts").iter().filter_map(Value::as_f64).sum();
    // What is never released is there at the end.
    assert!(live >= 1000.0, "{samples}");
}

#[test]
fn perfetto_gets_functions_that_begin_and_end_and_all_accesses() {
    let exports = Exports::of("exports.c", &[]);
    let bytes = std::fs::read(exports.export("perfetto", "run.perfetto-trace")).expect("it was just written");
    let trace = fields(&bytes);
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let (mut tracks, mut most, mut last) = (BTreeSet::new(), 0, BTreeMap::new());
    for (_, _, packet) in &trace {
        let packet = fields(packet);
        let inner = |field: u64| packet.iter().find(|f| f.0 == field).map(|f| fields(f.2));
        let number =
            |message: &[(u64, u64, &[u8])], field: u64| message.iter().find(|f| f.0 == field).map(|f| f.1);
        if let Some(track) = inner(60) {
            assert!(tracks.insert(number(&track, 1).expect("a number")));
        }
        for data in inner(12).iter().flatten() {
            let name = fields(data.2);
            let text = String::from_utf8(name.iter().find(|f| f.0 == 2).expect("a name").2.to_vec());
            names.insert(number(&name, 1).expect("a number"), text.expect("UTF-8"));
        }
        let Some(event) = inner(11) else { continue };
        let track = number(&event, 11).expect("a track");
        let time = number(&packet, 8).expect("a time");
        assert!(tracks.contains(&track));
        assert!(last.insert(track, time).is_none_or(|before| before <= time));
        match number(&event, 9).expect("a type") {
            1 => {
                let name = number(&event, 10).expect("a name");
                seen.insert(names[&name].clone());
                open.entry(track).or_default().push(name);
            }
            2 => assert!(open.entry(track).or_default().pop().is_some()),
            4 if track & 0xff == 5 => most = most.max(number(&event, 30).expect("a value")),
            4 => {}
            other => panic!("no such type: {other}"),
        }
    }
    assert!(open.values().all(Vec::is_empty));
    for function in ["main", "leaks", "grows"] {
        assert!(seen.contains(function), "{function}\n{seen:#?}");
    }
    assert!(most >= 1000, "{most}");
}

/// An entry of drmemtrace's format.
struct DrEntry {
    kind: u16,
    size: u16,
    word: u64,
}

/// The types of instructions in it: other ones, jumps, branches, calls, returns.
const DR_INSTRUCTIONS: std::ops::RangeInclusive<u16> = 10..=16;

fn dr_entries(path: &Path) -> Vec<DrEntry> {
    let bytes = std::fs::read(path).expect("it was just written");
    assert_eq!(bytes.len() % 12, 0);
    let entry = |entry: &[u8]| DrEntry {
        kind: u16::from_le_bytes([entry[0], entry[1]]),
        size: u16::from_le_bytes([entry[2], entry[3]]),
        word: u64::from_le_bytes(entry[4..].try_into().expect("8 bytes")),
    };
    bytes.chunks_exact(12).map(entry).collect()
}

/// Checks what a reader of that format relies on; gives instructions, loads and stores.
fn check_dr_file(path: &Path) -> [u64; 3] {
    let entries = dr_entries(path);
    // Header, version, type; the thread and its process; at the end the thread's end and the file's.
    let kinds: Vec<u16> = entries.iter().map(|entry| entry.kind).collect();
    assert_eq!((&kinds[..5], &kinds[kinds.len() - 2..]), (&[25, 28, 28, 22, 24][..], &[23, 26][..]));
    assert_eq!((entries[0].word, entries[1].word, entries[2].word), (4, 4, 0x2c0));
    let name = path.file_name().expect("a name").to_string_lossy();
    let numbers = format!(".{}.{}.", entries[4].word, entries[3].word);
    assert!(name.contains(&numbers) && name.ends_with(".trace"), "{name} has {numbers}");
    let (mut code, mut bytes) = (BTreeMap::new(), Vec::<u8>::new());
    let (mut counts, mut next) = ([0; 3], None);
    for entry in &entries {
        match entry.kind {
            47 => bytes.extend(&entry.word.to_le_bytes()[..entry.size.into()]),
            0 | 1 => {
                assert!(counts[0] > 0, "an access comes after its instruction");
                counts[1 + usize::from(entry.kind)] += 1;
            }
            kind if DR_INSTRUCTIONS.contains(&kind) => {
                counts[0] += 1;
                if !bytes.is_empty() {
                    code.insert(entry.word, std::mem::take(&mut bytes));
                }
                let code = code.get(&entry.word).expect("bytes come before the first execution");
                assert_eq!(code.len(), usize::from(entry.size), "{:#x}", entry.word);
                // What does not jump goes on at the next instruction; other code is entered by calls.
                assert!(next.is_none_or(|next| next == entry.word), "{next:x?} is not {:#x}", entry.word);
                next = (kind == 10).then(|| entry.word + u64::from(entry.size));
            }
            _ => {}
        }
    }
    counts
}

#[test]
fn drmemtrace_has_all_instructions_with_their_accesses_by_thread() {
    for program in ["integers.c", "algorithms.c", "threads.c"] {
        let exports = Exports::of(program, &["--flow", "full"]);
        let (trace, dir) = (&exports.recording.trace, exports.path("dr"));
        let ask = || trace.ask("export", &["--format", "drmemtrace", "-o", dir.to_str().expect("UTF-8")]);
        let outcome = ask();
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        let files = std::fs::read_dir(&dir).expect("a directory").map(|file| file.expect("read").path());
        let counts: Vec<[u64; 3]> = files.map(|file| check_dr_file(&file)).collect();
        assert_eq!(counts.len() as u64, trace.number("threads"), "{program}");
        let sum = |which: usize| counts.iter().map(|counts| counts[which]).sum::<u64>();
        let number = |keys: [&str; 2]| keys.iter().map(|key| trace.number(key)).sum::<u64>();
        assert_eq!(sum(1), number(["loads", "modifies"]), "{program}");
        assert_eq!(sum(2), number(["stores", "modifies"]), "{program}");
        // Those of all entered blocks, each up to where the next one was entered.
        let flow = trace.flow();
        let entered = flow.iter().enumerate().map(|(index, entered)| {
            let next = flow.get(index + 1).filter(|next| next.thread == entered.thread);
            next.map_or(entered.instructions, |next| entered.instructions.min(next.cycle - entered.cycle))
        });
        assert_eq!(sum(0), entered.sum::<u64>(), "{program}");
        let refused = ask();
        assert!(refused.status == 1 && refused.err().contains("already exists"), "{}", refused.err());
    }
}

#[test]
fn drmemtrace_needs_control_flow() {
    let exports = Exports::of("statics.c", &[]);
    let out = exports.path("dr");
    let refused = exports
        .recording
        .trace
        .ask("export", &["--format", "drmemtrace", "-o", out.to_str().expect("UTF-8")]);
    assert_eq!((refused.status, refused.err().lines().count()), (1, 1), "{}", refused.err());
    assert!(refused.err().contains("record --flow full"), "{}", refused.err());
    assert!(exports.names().is_empty(), "nothing is left: {:?}", exports.names());
}
