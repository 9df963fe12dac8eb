//! `cargo xtask bench load`: multi-threaded programs, many short processes,
//! and servers that answer while they are recorded, in one run, as Markdown.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::bench_record::number;
use crate::bench_runs::{Run, Runs, TICK};
use crate::table::{Table, median, short};
use crate::{bench_runs, install, kernel, shell};

/// Words that all threads count together.
const WORDS: u32 = 1_600_000;
/// Processes that a shell starts, one after the other.
const PROCESSES: u32 = 200;
/// How long a server may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs everything; `--rounds N` says how often.
pub(crate) fn run(rest: &[&str]) -> Result<()> {
    let rounds = bench_runs::rounds("load", rest, 3)?;
    install::tools(install::BENCH_LOAD)?;
    let dir = shell::target_dir().join("bench-load");
    let runs = Runs::prepare(&dir, rounds)?;
    println!("Medians of {rounds} rounds; see docs/overhead.md for the method.");
    threads(&runs)?;
    short_processes(&runs)?;
    servers(&runs, &dir, rounds)
}

fn threads(runs: &Runs) -> Result<()> {
    let hash = kernel::build_workload("hash_threads")?;
    let mut table = Table::new(&[
        "threads",
        "native s",
        "native, cores busy",
        "recorded s",
        "program",
        "recorder",
        "cores busy",
        "by the clock",
        "million accesses",
        "ns/access, all",
    ]);
    for threads in [1, 2, 8] {
        let (count, words) = (threads.to_string(), (WORDS / threads).to_string());
        let line = [&*hash, &count, &words];
        let native = runs.medians(|| runs.native(&line))?;
        let full = runs.medians(|| runs.recorded(&[], &line))?;
        let all = full.program + full.recorder;
        table.row(vec![
            count.clone(),
            format!("{:.3}", native.wall),
            short(native.program / native.wall),
            short(full.wall),
            short(full.program),
            short(full.recorder),
            short(all / full.wall),
            format!("{} x", short(full.wall / native.wall)),
            short(full.accesses / 1e6),
            short((all - native.program) * 1e9 / full.accesses),
        ]);
    }
    table.print("### Threads that count words, the same number together; seconds");
    Ok(())
}

fn short_processes(runs: &Runs) -> Result<()> {
    let mut table = Table::new(&[
        "processes",
        "native s",
        "program",
        "recorder",
        "all processor time",
        "by the clock",
        "blocks translated",
    ]);
    let of_true = format!("i=0; while [ $i -lt {PROCESSES} ]; do /bin/true; i=$((i+1)); done");
    let configure = "for i in 1 2 3 4 5 6 7 8 9 10; do echo 'int main(void) { return 0; }' | sed s/0/1/ | grep main | tr a-z A-Z | cut -c1-9; \
                     expr $i + 1; done";
    let python = format!("for i in 1 2 3 4 5; do {} -S -E -c pass; done", crate::bench_translate::PYTHON);
    for (name, script) in [
        (format!("{PROCESSES} times true"), &*of_true),
        ("60 of a shell script".to_owned(), configure),
        ("5 times python3 -c pass".to_owned(), &*python),
    ] {
        let line = ["sh", "-c", script];
        let native = runs.medians(|| runs.native(&line))?;
        let full = runs.medians(|| runs.recorded(&[], &line))?;
        let blocks = number(&runs.stat()?, "blocks translated")?;
        let all = full.program + full.recorder;
        table.row(vec![
            name,
            format!("{:.3}", native.wall),
            short(full.program),
            short(full.recorder),
            format!("{} x", short(all / native.program.max(TICK))),
            format!("{} x", short(full.wall / native.wall)),
            blocks.to_string(),
        ]);
    }
    table.print("### Short processes, started by a shell; seconds");
    Ok(())
}

/// A server, and who asks it.
struct Service<'a> {
    name: &'a str,
    port: u16,
    server: Vec<&'a str>,
    client: Vec<&'a str>,
    /// Ends the server.
    stop: Vec<&'a str>,
    /// Where the client's output says the requests a second.
    rates: fn(&str) -> Result<f64>,
}

fn servers(runs: &Runs, dir: &Path, rounds: usize) -> Result<()> {
    let mut table = Table::new(&[
        "server",
        "requests a second, native",
        "recorded",
        "fewer",
        "million accesses",
        "program s",
        "recorder s",
    ]);
    let (redis, web) = (free_port()?, free_port()?);
    let redis_port = redis.to_string();
    std::fs::write(dir.join("index.html"), "<p>memtap</p>\n")?;
    let folder = dir.to_str().context("the target directory's path is not UTF-8")?;
    let settings = dir.join("nginx.conf");
    std::fs::write(&settings, settings_of_nginx(folder, web))?;
    let settings = settings.to_str().context("the target directory's path is not UTF-8")?;
    let page = format!("http://127.0.0.1:{web}/index.html");
    let services = [
        Service {
            name: "redis, redis-benchmark -c 50",
            port: redis,
            server: vec!["redis-server", "--port", &redis_port, "--save", "", "--dir", folder],
            client: vec![
                "redis-benchmark",
                "-p",
                &redis_port,
                "-n",
                "20000",
                "-c",
                "50",
                "--csv",
                "-t",
                "set,get,incr,lpush,lpop,sadd,hset",
            ],
            stop: vec!["redis-cli", "-p", &redis_port, "shutdown", "nosave"],
            rates: rates_of_redis,
        },
        Service {
            name: "nginx, ab -c 20",
            port: web,
            server: vec!["nginx", "-e", "stderr", "-c", settings],
            client: vec!["ab", "-q", "-n", "20000", "-c", "20", &page],
            stop: vec!["nginx", "-e", "stderr", "-c", settings, "-s", "quit"],
            rates: rate_of_ab,
        },
    ];
    for service in services {
        let native = (0..rounds).map(|_| service.rate(&service.server)).collect::<Result<Vec<_>>>()?;
        let mut recorded = Vec::new();
        let mut costs = Run::default();
        for _ in 0..rounds {
            recorded.push(service.rate(&runs.recording(&[], &service.server))?);
            costs = runs.costs(0.0)?;
        }
        let (native, recorded) = (median(native), median(recorded));
        table.row(vec![
            service.name.to_owned(),
            format!("{native:.0}"),
            format!("{recorded:.0}"),
            format!("{} x", short(native / recorded)),
            short(costs.accesses / 1e6),
            short(costs.program),
            short(costs.recorder),
        ]);
    }
    table.print("### Servers; costs are of the last round");
    Ok(())
}

impl Service<'_> {
    /// Requests a second of one run.
    fn rate(&self, server: &[&str]) -> Result<f64> {
        let mut command = shell::command(server);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = command.spawn().with_context(|| format!("can't start {server:?}"))?;
        let rate = self.ask();
        let _ = shell::output(&mut shell::command(&self.stop));
        wait_for(&mut running)?;
        rate
    }

    fn ask(&self) -> Result<f64> {
        let start = Instant::now();
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        while TcpStream::connect(address).is_err() {
            if start.elapsed() > PATIENCE {
                bail!("{} does not listen", self.name);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        (self.rates)(&shell::output(Command::new(self.client[0]).args(&self.client[1..]))?)
    }
}

fn wait_for(server: &mut Child) -> Result<()> {
    let start = Instant::now();
    while server.try_wait()?.is_none() {
        if start.elapsed() > PATIENCE {
            server.kill()?;
            bail!("a server does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn settings_of_nginx(dir: &str, port: u16) -> String {
    // Started by root, its workers would be somebody who can't read the folder.
    format!(
        "user root;\ndaemon off;\nworker_processes 1;\npid {dir}/nginx.pid;\nevents {{}}\nhttp {{\n    access_log off;\n    client_body_temp_path {dir};\n    \
         proxy_temp_path {dir};\n    fastcgi_temp_path {dir};\n    uwsgi_temp_path {dir};\n    scgi_temp_path {dir};\n    \
         server {{ listen 127.0.0.1:{port}; root {dir}; }}\n}}\n"
    )
}

/// The requests a second that take as long as all of its tests: each has as many requests.
fn rates_of_redis(csv: &str) -> Result<f64> {
    let second =
        |line: &str| line.split(',').nth(1).and_then(|cell| cell.trim_matches('"').parse::<f64>().ok());
    let rates: Vec<f64> = csv.lines().filter_map(second).collect();
    if rates.is_empty() {
        bail!("redis-benchmark says no rate: {csv}");
    }
    Ok(rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>())
}

fn rate_of_ab(text: &str) -> Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Requests per second:"));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).with_context(|| format!("ab says no rate: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_what_clients_print() {
        let csv =
            "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"1000.00\",\"0.2\"\n\"GET\",\"3000.00\",\"0.1\"\n";
        assert_eq!(rates_of_redis(csv).expect("rates"), 1500.0);
        assert!(rates_of_redis("\"test\",\"rps\"\n").is_err());
        let text = "Complete requests:      20\nRequests per second:    4321.50 [#/sec] (mean)\n";
        assert_eq!(rate_of_ab(text).expect("a rate"), 4321.5);
        assert!(rate_of_ab("").is_err());
    }
}
