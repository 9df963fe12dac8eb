//! Traces in a store with the S3 protocol, which Google's XML API is like: queries give the same results as on the file.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use e2e::{Finished, TestProgram, memtap, run};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const KEY: &str = "who-asks";
const SECRET: &str = "what-nobody-else-knows";

/// Serves the folders of a directory as buckets, as long as it lives.
struct Store {
    address: SocketAddr,
    _runtime: Runtime,
}

impl Store {
    /// With `auth`, for those who know the secret.
    fn of(dir: &Path, auth: Option<SimpleAuth>) -> Self {
        let runtime = Runtime::new().expect("threads");
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(dir).expect("a directory"));
        auth.into_iter().for_each(|auth| builder.set_auth(auth));
        let service = builder.build();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("it has one");
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let server = Builder::new(TokioExecutor::new());
                    let _gone = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, _runtime: runtime }
    }

    fn ask(&self, secret: &str, words: &[&str]) -> Finished {
        let mut command = Command::new(memtap());
        command.args(words).env("AWS_ENDPOINT_URL", format!("http://{}", self.address));
        command.env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "here");
        run(command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", secret), b"")
    }
}

#[test]
fn a_trace_in_s3_is_asked_as_the_file_is() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(dir.path().join("traces")).expect("it can be made");
    let recording = TestProgram::named("containers.cpp").record_by("translate");
    let file = &recording.trace.path;
    std::fs::copy(file, dir.path().join("traces/run.memtap")).expect("it can be copied");
    let store = Store::of(dir.path(), Some(SimpleAuth::from_single(KEY, SECRET)));
    let file = file.to_str().expect("a path of a test is UTF-8");
    for query in [
        "SELECT count(*) FROM accesses",
        "SELECT variable, kind, count(*) AS n FROM accesses GROUP BY variable, kind ORDER BY n DESC, variable, kind",
        "SELECT name, loads, stores FROM functions ORDER BY name, loads",
        "SELECT * FROM accesses WHERE cycle BETWEEN 1000 AND 2000 ORDER BY cycle, ip",
    ] {
        let there = store.ask(SECRET, &["sql", "s3://traces/run.memtap", query, "--format", "csv"]);
        let here = store.ask(SECRET, &["sql", file, query, "--format", "csv"]);
        assert_eq!((there.status, there.err().as_str()), (0, ""), "{query}");
        assert_eq!(there.out(), here.out(), "{query}");
    }
    for (secret, address, words) in [
        (SECRET, "s3://traces/runs.memtap", "there is no such object"),
        ("something else", "s3://traces/run.memtap", "no credentials, or others than it needs"),
    ] {
        let refused = store.ask(secret, &["sql", address, "SELECT 1"]);
        let said = refused.err();
        assert_eq!((refused.status, said.lines().count()), (1, 1), "{said}");
        assert!(said.contains(words) && said.contains(address), "{said}");
    }
}

#[test]
fn a_trace_in_googles_store_is_read_as_the_file_is() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(dir.path().join("traces")).expect("it can be made");
    let trace = TestProgram::named("statics.c").record_by("translate").trace;
    std::fs::copy(&trace.path, dir.path().join("traces/run.memtap")).expect("it can be copied");
    let store = Store::of(dir.path(), None);
    let ask = |words: &[&str]| {
        let mut command = Command::new(memtap());
        command.args(words).env("GOOGLE_BASE_URL", format!("http://{}", store.address));
        run(command.env("GOOGLE_SKIP_SIGNATURE", "true"), b"")
    };
    let query = ["SELECT count(*), min(cycle), max(addr) FROM accesses", "--format", "csv"];
    let there = ask(&[&["sql", "gs://traces/run.memtap"], &query[..]].concat());
    assert_eq!((there.status, there.err().as_str()), (0, ""));
    assert_eq!(there.out(), trace.ask("sql", &query).out());
    let refused = ask(&["sql", "gs://traces/runs.memtap", "SELECT 1"]);
    assert!(refused.status == 1 && refused.err().contains("there is no such object"), "{}", refused.err());
}
