//! A server in a separate directory, and entries that can be told apart.
#![allow(dead_code, reason = "each test uses a part")]

use std::path::PathBuf;

use tempfile::TempDir;
use trace_format::{EntryType, Field, FieldRole, Filter, Guid, Trace};
use trace_server::{Address, Client, Credentials, Engine, EngineOptions, LogLevel, Server};

/// A server that listens on a Unix socket.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) engine: Engine,
    pub(crate) server: Server,
    pub(crate) address: Address,
}

pub(crate) fn options() -> EngineOptions {
    EngineOptions { workers: 2, memory_bytes: 64 << 20, ..EngineOptions::default() }
}

pub(crate) fn place() -> Place {
    place_with(options())
}

pub(crate) fn place_with(options: EngineOptions) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let engine = Engine::start(EngineOptions { root: Some(root), ..options }).unwrap();
    let mut server = Server::new(&engine, LogLevel::Nothing);
    let address = server.listen(&Address::Unix(dir.path().join("socket"))).unwrap();
    Place { dir, engine, server, address }
}

/// A place that also listens on that host, its address there, and the right token.
pub(crate) fn remote(host: &str) -> Option<(Place, Address, String)> {
    remote_with(options(), host)
}

pub(crate) fn remote_with(options: EngineOptions, host: &str) -> Option<(Place, Address, String)> {
    let mut place = place_with(options);
    let credentials = Credentials::load_or_create(&place.dir.path().join("state")).unwrap();
    let token = credentials.token().to_owned();
    place.server.set_credentials(credentials);
    let address = place.server.listen(&Address::Tcp { host: host.into(), port: 0 }).ok()?;
    Some((place, address, token))
}

impl Place {
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.address, None).unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("root").join(name)
    }
}

/// Entries of 24 bytes: cycle, address, and a number that nothing describes.
pub(crate) fn sample_type() -> EntryType {
    let field = |name: &str, offset, role| Field { name: name.into(), offset, bytes: 8, role };
    EntryType {
        guid: Guid([3; 16]),
        name: "sample".into(),
        entry_bytes: 24,
        fields: vec![field("cycle", 0, FieldRole::Growing), field("place", 8, FieldRole::Address)],
    }
}

pub(crate) fn sample(number: u64) -> [u8; 24] {
    let mut entry = [0; 24];
    entry[..8].copy_from_slice(&(number * 3).to_le_bytes());
    entry[8..16].copy_from_slice(&(0x1000 + number % 100).to_le_bytes());
    entry[16..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    entry
}

/// All entries of a stream of a file.
pub(crate) fn entries(path: &std::path::Path, stream: u32) -> Vec<u8> {
    let trace = Trace::open(path).unwrap();
    let reader = trace.stream(stream).unwrap();
    let (mut all, mut bytes, mut end) = (Vec::new(), Vec::new(), 0);
    for place in 0..reader.segments() {
        let segment = reader.segment(place).unwrap();
        assert_eq!(segment.first_index, end, "a hole before segment {place}");
        end += segment.entries;
        assert!(reader.read(place, &mut bytes).unwrap());
        all.extend_from_slice(&bytes);
    }
    all
}

/// The entries of a stream up to the first that is missing: what a killed server leaves.
pub(crate) fn beginning(path: &std::path::Path, stream: u32) -> Vec<u8> {
    let trace = Trace::open(path).unwrap();
    let Some(reader) = trace.stream(stream) else { return Vec::new() };
    let (mut all, mut bytes, mut end) = (Vec::new(), Vec::new(), 0);
    for place in 0..reader.segments() {
        let segment = reader.segment(place).unwrap();
        // Workers write as they get ready, and the frame that was being written is torn.
        if segment.first_index != end || !reader.read(place, &mut bytes).unwrap() {
            break;
        }
        end += segment.entries;
        all.extend_from_slice(&bytes);
    }
    all
}

/// All entries of a stream, through a client.
pub(crate) fn read_all(client: &Client, stream: u32, filter: &Filter) -> Vec<(u64, Vec<u8>)> {
    let mut reader = client.reader(stream, filter).unwrap();
    let (mut index, mut all) = (0, Vec::new());
    loop {
        let batch = reader.read(index, u32::MAX).unwrap();
        assert_eq!(batch.lost(), 0);
        let numbered = batch.entries().enumerate();
        all.extend(numbered.map(|(place, entry)| (batch.index(place), entry.to_vec())));
        index = batch.next_index();
        if index >= batch.end_index() {
            return all;
        }
    }
}
