//! Connections: many at a time, most of them idle.
//!
//! A browser opens connections ahead of need, keeps them, and sends nothing on some. One
//! thread waits on all of them, so that none blocks another; a few more threads compute
//! the answers. The answers themselves are left to the implementor of [`Answering`].

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, oneshot};

/// Requests that are worked on at the same time; others wait.
const WORKERS: usize = 8;
/// Connections at the same time; others wait to be accepted.
const MOST_CONNECTIONS: usize = 512;
/// So long may a request's head take to come, and a connection be idle.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a request's head at most.
const MOST_HEAD: usize = 16 << 10;

/// Who answers requests, on several threads at once.
pub(crate) trait Answering: Send + Sync + 'static {
    /// The answer; it may take long.
    fn respond<B>(&self, request: &Request<B>) -> Response<Full<Bytes>>;
}

/// The connections of a socket that listens, until this is dropped.
#[derive(Debug)]
pub(crate) struct Connections {
    over: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Connections {
    /// Accepts connections, and answers what is asked on them.
    ///
    /// # Errors
    /// Where the kernel gives no means to wait.
    pub(crate) fn serve(listener: TcpListener, answering: Arc<impl Answering>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WORKERS)
            .build()?;
        let entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        drop(entered);
        let (over, ended) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            runtime.spawn(accept(listener, answering));
            // The sender is gone: with the runtime, connections end.
            let _ = runtime.block_on(ended);
        });
        Ok(Self { over: Some(over), thread: Some(thread) })
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, answering: Arc<impl Answering>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((socket, _address)) = listener.accept().await else {
            // Who wanted to connect is gone, or there are no descriptors left; others will be closed.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let answering = answering.clone();
        let service = service_fn(move |request: Request<Incoming>| respond(request, answering.clone()));
        tokio::spawn(async move {
            let _place = place;
            // Without it the last part of an answer may wait for the other side. Where that fails, it is only slower.
            let _ = socket.set_nodelay(true);
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .max_buf_size(MOST_HEAD)
                .title_case_headers(true);
            // Who asked may be gone, or speak another protocol: neither is of interest to others.
            let _ = http.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    answering: Arc<impl Answering>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = tokio::task::spawn_blocking(move || answering.respond(&request)).await;
    Ok(answer.unwrap_or_else(|_| {
        let mut failed = Response::new(Full::new(Bytes::new()));
        *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        failed
    }))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    use super::*;

    struct Echo;

    impl Answering for Echo {
        fn respond<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
            Response::new(Full::new(Bytes::from(request.uri().path().to_owned())))
        }
    }

    fn echo() -> (Connections, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (Connections::serve(listener, Arc::new(Echo)).unwrap(), address)
    }

    fn ask(socket: &mut TcpStream, path: &str) {
        write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    }

    fn is_answered(socket: &mut TcpStream, path: &str) {
        let mut bytes = Vec::new();
        while !bytes.ends_with(format!("\r\n\r\n{path}").as_bytes()) {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            bytes.push(byte[0]);
        }
    }

    #[test]
    fn idle_connections_keep_nobody_waiting() {
        let (_connections, address) = echo();
        let idle: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut kept: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
        for round in 0..20 {
            for (number, socket) in kept.iter_mut().enumerate() {
                ask(socket, &format!("/{round}/{number}"));
            }
            for (number, socket) in kept.iter_mut().enumerate() {
                is_answered(socket, &format!("/{round}/{number}"));
            }
        }
        drop(idle);
    }

    #[test]
    fn connections_at_the_same_moment_are_all_answered() {
        let (_connections, address) = echo();
        let begin = std::sync::Barrier::new(50);
        std::thread::scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    begin.wait();
                    let mut socket = TcpStream::connect(address).unwrap();
                    ask(&mut socket, "/now");
                    is_answered(&mut socket, "/now");
                    // It is kept until all are answered.
                    begin.wait();
                });
            }
        });
    }

    #[test]
    fn what_is_no_request_ends_its_connection_alone() {
        let (_connections, address) = echo();
        let mut kept = TcpStream::connect(address).unwrap();
        let long = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "x".repeat(4 * MOST_HEAD));
        for wrong in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\0\x01\r\n\r\n", &long] {
            let mut socket = TcpStream::connect(address).unwrap();
            // It may be closed before all was sent.
            let _ = socket.write_all(wrong.as_bytes());
            let mut answer = Vec::new();
            let _ = socket.read_to_end(&mut answer);
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{wrong:.20}");
        }
        ask(&mut kept, "/still");
        is_answered(&mut kept, "/still");
    }

    #[test]
    fn who_still_waits_is_cut_off_at_the_end() {
        let (connections, address) = echo();
        let mut socket = TcpStream::connect(address).unwrap();
        ask(&mut socket, "/one");
        is_answered(&mut socket, "/one");
        drop(connections);
        assert_eq!(socket.read(&mut [0]).unwrap_or(0), 0);
        assert!(TcpStream::connect(address).is_err());
    }
}
