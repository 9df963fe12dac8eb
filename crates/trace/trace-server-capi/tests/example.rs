//! The C example, built with pkg-config and run against a server of each kind.

use std::path::{Path, PathBuf};
use std::process::Command;

use trace_format::Trace;
use trace_server::{Address, Credentials, Engine, EngineOptions, Server};

const EXPECTED: &str = "100000 entries\n\
    cycle 100001 is before entry 50001\n\
    250 stores in cycles 1000 to 2000\n\
    accesses: 100000 entries of 32 bytes\n\
    disk: 1000 entries of 24 bytes\n\
    refused: the trace has no stream 999 to write to\n";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("crates/WING/NAME").into()
}

/// Where cargo puts libraries of this build: beside the directory of test programs.
fn built_libraries() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let dir = own.ancestors().nth(2).expect("target/PROFILE/deps/TEST").to_path_buf();
    assert!(
        dir.join("libmemtap.so").exists(),
        "{}: libmemtap.so is missing; build the whole workspace",
        dir.display()
    );
    dir
}

/// A folder with the library under both of its names, that for linking and that for the loader, as an installation has it.
fn library_dir(dir: &Path) -> PathBuf {
    let to = dir.join("lib");
    if !to.exists() {
        std::fs::create_dir(&to).unwrap();
        for name in ["libmemtap.so", "libmemtap.so.0"] {
            std::os::unix::fs::symlink(built_libraries().join("libmemtap.so"), to.join(name)).unwrap();
        }
    }
    to
}

/// Fills in the pkg-config file as an installation does, and builds an example with what it says.
fn build(dir: &Path, name: &str) -> PathBuf {
    let (root, library) = (repository(), library_dir(dir));
    let template = std::fs::read_to_string(root.join("include/memtap-client.pc.in")).unwrap();
    let text = template
        .replace("@prefix@", &root.display().to_string())
        .replace("@libdir@", &library.display().to_string())
        .replace("@includedir@", &root.join("include").display().to_string())
        .replace("@version@", env!("CARGO_PKG_VERSION"));
    assert!(!text.contains('@'), "{text}");
    std::fs::write(dir.join("memtap-client.pc"), text).unwrap();
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "memtap-client"])
        .env("PKG_CONFIG_PATH", dir)
        .output()
        .expect("pkg-config is installed");
    assert!(flags.status.success(), "{}", String::from_utf8_lossy(&flags.stderr));
    let program = dir.join(name);
    let built = Command::new("gcc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("c/{name}.c")))
        .args(String::from_utf8_lossy(&flags.stdout).split_whitespace())
        .output()
        .expect("gcc is installed");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// What a program that [`build`] made prints, what it says of errors, and its status.
fn run(dir: &Path, program: &Path, args: &[&str]) -> (String, String, Option<i32>) {
    let run = Command::new(program).args(args).env("LD_LIBRARY_PATH", library_dir(dir)).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&run.stdout), text(&run.stderr), run.status.code())
}

#[test]
fn the_example_runs_against_each_kind_of_server() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "client");
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let engine =
        Engine::start(EngineOptions { root: Some(root.clone()), workers: 2, ..EngineOptions::default() })
            .unwrap();
    let mut server = Server::new(&engine, trace_server::LogLevel::Nothing);
    let credentials = Credentials::load_or_create(&dir.path().join("state")).unwrap();
    let token = credentials.token().to_owned();
    server.set_credentials(credentials);
    let unix = server.listen(&Address::Unix(dir.path().join("socket"))).unwrap();
    let tcp = server.listen(&Address::Tcp { host: "127.0.0.1".into(), port: 0 }).unwrap();
    let embedded = dir.path().join("embedded");
    let cases = [
        (unix.to_string(), "local".to_owned(), root.join("local")),
        (tcp.to_string(), "memtap:remote".to_owned(), root.join("remote")),
        ("-".to_owned(), embedded.display().to_string(), embedded),
    ];
    for (url, specifier, file) in cases {
        let ran = run(dir.path(), &program, &[&url, &specifier, &token]);
        assert_eq!(ran, (EXPECTED.into(), String::new(), Some(0)), "{url}");
        let trace = Trace::open(&file).unwrap();
        assert!(trace.closed() && trace.check().unwrap().is_sound());
        assert_eq!(trace.properties()["program"], "client.c");
    }
    // A second time the file is there.
    let (_, err, status) = run(dir.path(), &program, &[&unix.to_string(), "local"]);
    assert!(err.contains("error 5: local: already exists") && status == Some(1), "{err}");
}

#[test]
fn messages_are_read_beside_accesses_and_backwards() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "messages");
    let file = dir.path().join("trace");
    let (out, err, status) = run(dir.path(), &program, &["-", file.to_str().unwrap()]);
    // A message comes before an access of its cycle.
    let expect = "messages: message of 16 bytes: cycle text; texts: data\n\
        after 0 accesses, cycle 0: message 0 (9 bytes)\n\
        after 1501 accesses, cycle 3001: message 1           ... (99 bytes)\n\
        after 3001 accesses, cycle 6002: message 2           ... (189 bytes)\n\
        after 4502 accesses, cycle 9003: message 3           ... (279 bytes)\n\
        after 6002 accesses, cycle 12004: message 4           ... (369 bytes)\n\
        cycle 12004: message 4           ... (369 bytes)\n\
        cycle 9003: message 3           ... (279 bytes)\n\
        again message 3, then the end\n\
        refused: stream 2: its entries have no growing field of that name\n";
    assert_eq!((&*out, &*err, status), (expect, "", Some(0)));
    assert!(Trace::open(&file).unwrap().check().unwrap().is_sound());
}

#[test]
fn a_simulator_writes_what_it_counts() {
    let dir = tempfile::tempdir().unwrap();
    let program = build(dir.path(), "simulator");
    let file = dir.path().join("trace");
    let (out, err, status) = run(dir.path(), &program, &["-", file.to_str().unwrap()]);
    assert_eq!((&*err, status), ("", Some(0)));
    let numbers: Vec<u64> = out.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [_, loads, stores] = numbers[..] else { panic!("{out}") };
    // Each comparison of neighbours loads both: 299 of them first, then one less each time.
    assert_eq!(loads, 299 * 300);
    let trace = Trace::open(&file).unwrap();
    assert!(trace.closed() && trace.check().unwrap().is_sound());
    let threads = trace.threads();
    assert_eq!(threads.len(), 1);
    let mut cursor = trace.shard(threads[0].thread).accesses(&Default::default());
    let mut counted = (0, 0);
    while let Some(accesses) = cursor.next_block().unwrap() {
        for access in accesses {
            assert!((0x1000..0x1000 + 300 * 4).contains(&access.addr.0) && access.size == 4);
            if access.kind.writes() { counted.1 += 1 } else { counted.0 += 1 }
        }
    }
    assert_eq!(counted, (loads, stores));
    let lines = include_str!("../c/simulator.c").lines().count();
    assert!(lines < 200, "{lines}");
}
