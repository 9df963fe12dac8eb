//! Traces on a web server: the same results as from a file, through
//! temporary failures, and an error of one line if a failure persists.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use object_traces::{ObjectSource, open};
use trace_format::{Batch, Filter, PageIndex, Trace, TraceSource};

/// What the server does with a request for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Answers,
    /// It fails so many requests for bytes, by ending the connection in the middle of them and by saying that it is busy, in turns.
    Fails(u64),
    Says(&'static str),
    /// It sends all of the object, whatever was asked for.
    KnowsNoRanges,
}

/// A server of a few objects.
struct Server {
    address: String,
    shelf: Arc<Shelf>,
}

/// What it has, and what it did.
struct Shelf {
    manner: Manner,
    objects: Mutex<HashMap<String, Vec<u8>>>,
    /// Bytes of objects that were sent.
    sent: AtomicU64,
    failed: AtomicU64,
}

impl Server {
    fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("it has one"));
        let (sent, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        let shelf = Arc::new(Shelf { manner, objects: Mutex::default(), sent, failed });
        let server = Self { address, shelf: shelf.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shelf = shelf.clone();
                // Where the connection ends early there is nobody left to tell.
                std::thread::spawn(move || drop(shelf.serve(&stream)));
            }
        });
        server
    }

    fn put(&self, name: &str, bytes: &[u8]) -> String {
        self.shelf.objects.lock().unwrap().insert(format!("/{name}"), bytes.to_vec());
        format!("{}/{name}", self.address)
    }
}

impl Shelf {
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let mut lines = BufReader::new(stream).lines();
        loop {
            let head = lines.by_ref().take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()));
            let head = head.collect::<io::Result<Vec<String>>>()?;
            let Some(request) = head.first() else { return Ok(()) };
            let (method, rest) = request.split_once(' ').unwrap_or_default();
            let path = rest.split(' ').next().unwrap_or_default();
            let object = self.objects.lock().unwrap().get(path).cloned();
            let range = head.iter().find_map(|line| {
                let line = line.to_ascii_lowercase();
                let (first, last) = line.strip_prefix("range: bytes=")?.split_once('-')?;
                Some(first.parse().ok()?..last.parse::<usize>().ok()? + 1)
            });
            if !self.answer(stream, method, object, range)? {
                return Ok(());
            }
        }
    }

    /// Answers one request; whether the connection goes on.
    fn answer(
        &self,
        mut to: &TcpStream,
        method: &str,
        object: Option<Vec<u8>>,
        range: Option<std::ops::Range<usize>>,
    ) -> io::Result<bool> {
        let Some(object) = object else {
            to.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
            return Ok(true);
        };
        if let Manner::Says(status) = self.manner {
            let page = if method == "HEAD" { "" } else { "<a>\n</a>\n" };
            write!(to, "HTTP/1.1 {status}\r\ncontent-length: 9\r\n\r\n{page}")?;
            return Ok(true);
        }
        let dated = "last-modified: Sat, 28 Nov 2026 00:00:00 GMT\r\netag: \"one\"";
        let whole = object.len();
        if method == "HEAD" {
            write!(to, "HTTP/1.1 200 OK\r\n{dated}\r\ncontent-length: {whole}\r\n\r\n")?;
            return Ok(true);
        }
        let range = range.filter(|_| self.manner != Manner::KnowsNoRanges);
        let bytes = &object[range.clone().unwrap_or(0..whole)];
        let mut head = format!("HTTP/1.1 200 OK\r\n{dated}\r\ncontent-length: {}\r\n\r\n", bytes.len());
        if let Some(range) = range {
            let told = format!(
                "206 Partial Content\r\ncontent-range: bytes {}-{}/{whole}",
                range.start,
                range.end - 1
            );
            head = head.replace("200 OK", &told);
        }
        if let Manner::Fails(times) = self.manner {
            let before = self.failed.fetch_add(1, Ordering::Relaxed);
            if before < times && before.is_multiple_of(2) {
                to.write_all(head.as_bytes())?;
                to.write_all(&bytes[..bytes.len() / 2])?;
                return Ok(false);
            } else if before < times {
                to.write_all(b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\n\r\n")?;
                return Ok(true);
            }
        }
        to.write_all(head.as_bytes())?;
        to.write_all(bytes)?;
        self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(true)
    }
}

/// A trace of the tests of the format, its bytes, and those of its index.
fn golden() -> (Trace, Vec<u8>, Vec<u8>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../trace/trace-format/tests/golden/v5.memtap");
    let read = |path: &Path| std::fs::read(path).expect("it is in the repository");
    (Trace::open(&path).expect("a trace"), read(&path), read(&PageIndex::path(&path)))
}

fn content(trace: &Trace) -> Vec<String> {
    let mut content = Vec::new();
    for record in trace.threads() {
        let mut cursor = trace.shard(record.thread).events(&Filter::default());
        while let Some(batch) = cursor.next_batch().expect("it can be read") {
            match batch {
                Batch::Accesses(accesses) => {
                    content.extend(accesses.iter().map(|access| format!("{access:?}")));
                }
                Batch::Event(event) => content.push(format!("{event:?}")),
            }
        }
    }
    content
}

#[test]
fn a_server_s_trace_is_that_of_the_file() {
    let (trace, bytes, index) = golden();
    assert!(!content(&trace).is_empty());
    for manner in [Manner::Answers, Manner::Fails(3)] {
        let server = Server::start(manner);
        let address = server.put("traces/run.memtap", &bytes);
        let remote = open(Path::new(&address)).expect("a trace");
        assert_eq!(remote.path(), Path::new(&address));
        assert_eq!(content(&remote), content(&trace), "{manner:?}");
        assert!(remote.page_index().is_none());
        server.put("traces/run.memtap.mtx", &index);
        assert!(remote.page_index().is_some());
    }
}

#[test]
fn only_what_is_needed_is_sent() {
    let server = Server::start(Manner::Answers);
    let bytes: Vec<u8> = (0..64u32 << 20).map(|at| (at >> 12) as u8).collect();
    let source = ObjectSource::open(&server.put("large", &bytes)).expect("it is there");
    let mut part = [0; 4096];
    for at in [1 << 20, 60 << 20, 33 << 20] {
        source.read_at(at, &mut part).expect("it can be read");
        assert_eq!(part[..], bytes[at as usize..at as usize + part.len()]);
    }
    let sent = server.shelf.sent.load(Ordering::Relaxed);
    assert!(sent <= 3 * (256 << 10), "{sent}");
}

#[test]
fn what_can_t_be_had_is_one_line() {
    let (_, bytes, _) = golden();
    let server = |manner| Server::start(manner).put("run.memtap", &bytes);
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        format!("http://{}/run.memtap", listener.local_addr().expect("it has one"))
    };
    for (address, words) in [
        (server(Manner::Answers).replace("run.", "runs."), "there is no such object"),
        (server(Manner::Says("403 Forbidden")), "no credentials, or others than it needs"),
        (server(Manner::Says("401 Unauthorized")), "no credentials, or others than it needs"),
        (server(Manner::Says("500 Internal Server Error")), "500"),
        (server(Manner::KnowsNoRanges), "Range request not supported"),
        (nobody, "refused"),
        ("ftp://example.org/run.memtap".to_owned(), "ftp:// is not a store that memtap knows"),
        ("file:///run.memtap".to_owned(), "give the path of a file"),
        ("https://example.org/run.memtap?signature=a".to_owned(), "signed addresses are not read"),
    ] {
        let error = open(Path::new(&address)).expect_err("it can't be had");
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let said = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        assert!(said.contains(words) && said.contains(&address) && !said.contains('\n'), "{address}: {said}");
    }
}
