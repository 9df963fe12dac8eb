//! A whole channel: after a good hello the input is what the client sends. The server must answer or close, and go on to
//! serve the next channel.
#![no_main]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use trace_server::wire::{self, Request};
use trace_server::{Address, Engine, EngineOptions, Server};

fn socket() -> &'static PathBuf {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    SOCKET.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("memtap-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let root = Some(dir.clone());
        let options = EngineOptions { workers: 1, memory_bytes: 32 << 20, root, channels: 64, ..EngineOptions::default() };
        let engine = Engine::start(options);
        let engine = engine.expect("the directory is there");
        let mut server = Server::new(&engine, trace_server::LogLevel::Nothing);
        let path = dir.join("socket");
        server.listen(&Address::Unix(path.clone())).expect("the directory is ours");
        std::mem::forget(server);
        path
    })
}

fuzz_target!(|input: &[u8]| {
    let mut stream = UnixStream::connect(socket()).expect("the server accepts");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket has time-outs");
    let hello = Request::Hello { major: 1, minor: 0, token: String::new(), client: String::new() };
    wire::write(&mut stream, &hello.encode(1)).expect("the server reads");
    wire::read(&mut stream, 1000).expect("the server answers");
    // The server may have closed the channel before all is written.
    let _ = stream.write_all(input);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answers = Vec::new();
    let read = stream.read_to_end(&mut answers);
    assert!(read.is_ok() || answers.is_empty(), "the server neither answers nor closes");
});
