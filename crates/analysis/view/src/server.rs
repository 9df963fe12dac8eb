//! The server: which requests are allowed, what is answered, and with which headers.
//!
//! Requests must have the token, which is the first part of every path, so the requests of the page
//! itself have it without knowing it. The Host of a request must be an IP address or `localhost`:
//! another page whose name was bound to this address (DNS rebinding) has a different Host. Requests
//! sent by another page are recognised by their Origin. Sockets are left to `connections.rs`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::by_thread::CellThreads;
use crate::compare::compare;
use crate::connections::{Answering, Connections};
use crate::error::{Error, Refusal};
use crate::map::TraceMap;
use crate::opening::{Opening, Runs};
use crate::page::FILES;
use crate::pending_requests::PendingRequests;
use crate::query::Parameters;

const TOKEN_BYTES: usize = 16;
/// How nice the threads are that count frames again: as `nice` has it by default.
const BACKGROUND: i32 = 10;

/// What every answer says.
const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// An answer.
struct Answer {
    content_type: &'static str,
    body: Vec<u8>,
}

/// Opens the runs as they are now, or says in a line why that is not possible.
pub type OpenAgain = dyn Fn(&Opening) -> Result<Vec<TraceMap>, String> + Send + Sync;

/// Serves one trace or two until it is dropped.
pub struct MapServer {
    shared: Arc<Shared>,
    url: String,
    connections: Option<Connections>,
}

struct Shared {
    /// One run, or two to compare.
    opening: Arc<Opening>,
    open_again: Box<OpenAgain>,
    token: String,
    pending: PendingRequests,
    counting: Mutex<Vec<JoinHandle<()>>>,
}

fn token() -> Result<String, Error> {
    use std::io::Read;
    let mut bytes = [0u8; TOKEN_BYTES];
    let mut random = std::fs::File::open("/dev/urandom").map_err(Error::NoToken)?;
    random.read_exact(&mut bytes).map_err(Error::NoToken)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in a time that does not depend on how much is the same.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// The value of a header that is there at most once.
fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Refusal> {
    let mut found = headers.get_all(name).iter();
    let first = found.next();
    if found.next().is_some() {
        return Err(Refusal::wrong(format!("the header {name} is there twice")));
    }
    let text = |value: &'a HeaderValue| value.to_str();
    first.map(text).transpose().map_err(|_| Refusal::wrong(format!("the header {name} is not text")))
}

/// Whether a Host is an IP address or `localhost`, with a port or without.
fn is_address(host: &str) -> bool {
    let unbracketed =
        |name: &str| name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).map(str::to_owned);
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => {
            if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
                return false;
            }
            name
        }
        _ => host,
    };
    match unbracketed(name) {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok(),
    }
}

impl Shared {
    fn answer<B>(&self, request: &Request<B>) -> Result<Answer, Refusal> {
        let host = header(request.headers(), "Host")?.unwrap_or_default();
        if !is_address(host) {
            return Err(Refusal::new(403, "ask for this page by IP address or as localhost"));
        }
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let path = path.strip_prefix('/').unwrap_or(path);
        let (token, rest) = path.split_once('/').unwrap_or((path, ""));
        if !same(token, &self.token) {
            return Err(Refusal::new(
                401,
                "the token in the address is missing or wrong; memtap view printed it",
            ));
        }
        if header(request.headers(), "Origin")?.is_some_and(|origin| origin != format!("http://{host}")) {
            return Err(Refusal::new(403, "another page asks; only memtap's own may"));
        }
        if request.method() != Method::GET {
            return Err(Refusal::new(405, "only GET is answered"));
        }
        if let Some(file) = FILES.iter().find(|file| file.name == rest) {
            return Ok(Answer { content_type: file.content_type, body: file.text.into() });
        }
        self.data(rest, Parameters::parse(query)?)
    }

    fn data(&self, name: &str, mut parameters: Parameters<'_>) -> Result<Answer, Refusal> {
        if name == "opening" {
            parameters.finish()?;
            return Ok(json(self.opening.json().to_string()));
        }
        if name == "reopen" {
            parameters.finish()?;
            self.reopen()?;
            return Ok(json("{}".to_owned()));
        }
        let Some(runs) = self.opening.wait() else {
            return Err(Refusal::new(503, "memtap view has ended"));
        };
        if name == "compare" {
            let [before, after] = runs.as_slice() else {
                return Err(Refusal::new(404, "there is one run only; memtap view A B shows two"));
            };
            let request = parameters.compare(before, after)?;
            return Ok(json(compare(before, after, &request, &self.pending)?));
        }
        match name {
            "progress" => {
                let counted = self.pending.counted(parameters.asker()?);
                return Ok(json(serde_json::json!({"counted": counted}).to_string()));
            }
            "cancel" => {
                self.pending.cancel(parameters.asker()?);
                return Ok(json("{}".to_owned()));
            }
            _ => {}
        }
        let number = parameters.run(runs.len())?;
        let map = &runs[number];
        match name {
            "trace" => {
                parameters.finish()?;
                let mut facts = map.json();
                facts["runs"] = runs.len().into();
                facts["generation"] = self.opening.generation().into();
                Ok(json(facts.to_string()))
            }
            "state" => {
                parameters.finish()?;
                let state =
                    serde_json::json!({"changed": map.is_changed(), "generation": self.opening.generation()});
                Ok(json(state.to_string()))
            }
            "table" if map.is_machine => {
                Ok(json(map.machine_table(&parameters.machine_table(map)?, &self.pending)?))
            }
            "place" | "flame" | "source" | "lifetimes" | "findings" if map.is_machine => {
                Err(Refusal::new(404, "of a machine this is not known"))
            }
            "table" => Ok(json(map.table(&parameters.table(map)?, &self.pending)?)),
            "place" => Ok(json(map.places(&parameters.place(map)?)?.to_string())),
            "access" => Ok(json(map.access(&parameters.access(map)?, &self.pending)?.to_string())),
            "flame" => Ok(json(map.flame(&parameters.flame(map)?, &self.pending)?.to_string())),
            "singles" => Ok(json(map.singles(&parameters.singles(map)?)?.to_string())),
            "findings" => Ok(json(map.findings(&parameters.findings()?, &self.pending)?)),
            "source" => Ok(json(map.source(&parameters.source()?)?.to_string())),
            "lanes" => Ok(json(map.lanes(&parameters.lanes(map)?, &self.pending)?.to_string())),
            "lifetimes" => Ok(json(map.lifetimes(&parameters.lifetimes(map)?).to_string())),
            "blocks" => Ok(json(map.blocks(&parameters.blocks(map)?).to_string())),
            "tile" => {
                let request = parameters.tile(map)?;
                let (tile, by_thread) = match request.by_thread {
                    true => map.tile_by_thread(&request).map(|(tile, threads)| (tile, Some(threads)))?,
                    false => (map.tile(&request)?, None),
                };
                let mut head = tile.json();
                if let Some(CellThreads { threads, .. }) = &by_thread {
                    head["threads"] = threads.iter().map(|thread| thread.0).collect();
                }
                let head = head.to_string();
                let mut body = Vec::with_capacity(head.len() + 8 + tile.grid.counts.len() * 4);
                // The counts begin at a multiple of their size.
                let head = format!("{head:<width$}", width = head.len().next_multiple_of(4));
                body.extend((head.len() as u32).to_le_bytes());
                body.extend(head.as_bytes());
                body.extend(tile.grid.counts.iter().flat_map(|count| count.to_le_bytes()));
                body.extend(by_thread.into_iter().flat_map(|threads| threads.cells));
                Ok(Answer { content_type: "application/octet-stream", body })
            }
            _ => Err(Refusal::new(404, "there is nothing of that name")),
        }
    }

    /// Shows these runs: of two the first is that before, the second that after.
    fn show(&self, runs: Vec<TraceMap>) -> Result<(), Error> {
        if runs.len() > 1 && runs.iter().any(|run| run.is_machine) {
            return Err(Error::Machine);
        }
        let runs: Runs = Arc::new(runs);
        if !self.opening.show(runs.clone()) {
            return Ok(());
        }
        let count = |number: usize| {
            let runs = runs.clone();
            std::thread::spawn(move || {
                // Of this thread alone. What somebody waits for comes first; where it can't be set, both take longer.
                let _ = rustix::process::setpriority_process(None, BACKGROUND);
                if let Some(map) = runs.get(number) {
                    map.frames.count_in_slices(&map.session);
                }
            })
        };
        let mut counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        counting.retain(|thread| !thread.is_finished());
        counting.extend((0..runs.len()).map(count));
        Ok(())
    }

    /// Opens the runs again, as they are now. Where that fails they stay as they were.
    fn reopen(&self) -> Result<(), Refusal> {
        let Some(before) = self.opening.again() else {
            return Err(Refusal::new(409, "the trace is being opened already"));
        };
        let opened = (self.open_again)(&self.opening)
            .and_then(|runs| self.show(runs).map_err(|error| error.to_string()));
        match opened {
            Ok(()) => {
                before.iter().for_each(|map| map.frames.stop());
                Ok(())
            }
            Err(why) => {
                self.opening.keep(before);
                Err(Refusal::new(500, why))
            }
        }
    }
}

impl Answering for Shared {
    fn respond<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let (status, Answer { content_type, body }) = match self.answer(request) {
            Ok(answer) => (200, answer),
            Err(Refusal { status, line }) => {
                (status, Answer { content_type: "text/plain; charset=utf-8", body: (line + "\n").into() })
            }
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in HEADERS.into_iter().chain([("content-type", content_type)]) {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

fn json(text: String) -> Answer {
    Answer { content_type: "application/json", body: text.into() }
}

impl MapServer {
    /// Listens there. Until [`show`](Self::show) is called, the page says how far the runs are opened, and requests about them wait.
    /// They are opened again when a user asks for it.
    ///
    /// # Errors
    /// Where that is not possible.
    pub fn listen(
        listen: SocketAddr,
        opening: Arc<Opening>,
        open_again: Box<OpenAgain>,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        let mut bound = listener.local_addr().map_err(failed)?;
        let token = token()?;
        if bound.ip().is_unspecified() {
            bound.set_ip(match bound.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        let url = format!("http://{bound}/{token}/");
        let (pending, counting) = (PendingRequests::default(), Mutex::default());
        let shared = Arc::new(Shared { opening, open_again, token, pending, counting });
        let connections = Connections::serve(listener, shared.clone()).map_err(failed)?;
        Ok(Self { shared, url, connections: Some(connections) })
    }

    /// Shows these runs: of two the first is that before, the second that after.
    ///
    /// # Errors
    /// Of two machines.
    pub fn show(&self, runs: Vec<TraceMap>) -> Result<(), Error> {
        self.shared.show(runs)
    }

    /// Where a browser finds it.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for MapServer {
    fn drop(&mut self) {
        if let Some(runs) = self.shared.opening.end() {
            runs.iter().for_each(|map| map.frames.stop());
        }
        self.shared.pending.stop();
        drop(self.connections.take());
        let counting =
            std::mem::take(&mut *self.shared.counting.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in counting {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_addresses_or_localhost() {
        for host in
            ["127.0.0.1:80", "127.0.0.1", "localhost:8080", "LocalHost", "[::1]:80", "[::1]", "10.1.2.3:1"]
        {
            assert!(is_address(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example:1",
            "[::1",
            "::1]:80",
            "localhost:",
            "localhost:x",
            "1",
        ] {
            assert!(!is_address(host), "{host}");
        }
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let (a, b) = (token().unwrap(), token().unwrap());
        assert!(a.len() == 32 && same(&a, &a) && !same(&a, &b) && !same(&a, &a[..31]) && !same(&a, ""));
    }
}
