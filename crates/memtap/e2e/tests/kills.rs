//! The recorder or the server is killed at a random moment. What was recorded until then can be read except for the last part,
//! and every command says that the end is missing. `cargo xtask stress kills` does this 200 times and reports how much was lost.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::{Limited, TestProgram, Trace, memtap, serve, spawn};

/// Kills of each, unless `MEMTAP_KILLS` says another number.
const KILLS: u64 = 2;
/// Moments lie between these after the program began, in milliseconds.
const EARLIEST: u64 = 100;
const LATEST: u64 = 2600;
/// Words of the file that program and test share: the number of ticks, whether to end, and when each tick was.
const TICKS: usize = 1 << 16;

// Counts about every millisecond, and says when each count was.
const TICKING: &str = "
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
long ticks;
int main(int argc, char **argv)
{
    int file = open(argv[argc - 1], O_RDWR);
    volatile long *said = mmap(0, 8 * (2 + 65536), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (long n = 1; n < 65536 && !said[1]; n++) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        said[2 + n] = now.tv_sec * 1000000000 + now.tv_nsec;
        __asm__ volatile(\"movq %1, %0\" : \"=m\"(ticks) : \"r\"(n));
        said[0] = n;
        usleep(1000);
    }
    return 0;
}
";

fn words(path: &Path) -> Vec<u64> {
    let bytes = std::fs::read(path).expect("the file is there");
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

/// A process that keeps a trace, and the recorder of the program, which may be the same.
struct Keeper {
    /// Who is killed.
    victim: Limited,
    /// Who is left.
    other: Option<Limited>,
}

fn keep(command: &mut Command) -> Limited {
    spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}

fn begin(server: bool, dir: &Path, program: &TestProgram, said: &Path) -> Keeper {
    let mut record = Command::new(memtap());
    record.args(["record", "--quiet"]);
    let kept = server.then(|| {
        let (keeper, url) = serve(dir);
        record.args(["--server", &url, "-o", "t.memtap"]);
        keeper
    });
    if kept.is_none() {
        record.arg("-o").arg(dir.join("t.memtap"));
    }
    let recorder = keep(record.arg("--").args(program.command_line()).arg(said));
    match kept {
        Some(victim) => Keeper { victim, other: Some(recorder) },
        None => Keeper { victim: recorder, other: None },
    }
}

fn wait(what: impl Fn() -> bool, complaint: &str) {
    let done = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        what()
    });
    assert!(done, "{complaint}");
}

/// Kills one after that time, and says how many milliseconds before that its trace ends.
fn lost_at(server: bool, after: Duration, program: &TestProgram) -> f64 {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let said = dir.path().join("said");
    std::fs::write(&said, vec![0; 8 * (2 + TICKS)]).expect("there is room");
    let mut keeper = begin(server, dir.path(), program, &said);
    wait(|| words(&said)[0] > 0, "the program does not begin");
    std::thread::sleep(after);
    // What is read first happened before the kill.
    let ticks = words(&said)[0];
    keeper.victim.kill().expect("SIGKILL to a child of ours");
    keeper.victim.wait().expect("it was started");
    let times = words(&said);
    let file = std::fs::OpenOptions::new().write(true).open(&said).expect("the file is ours");
    std::os::unix::fs::FileExt::write_all_at(&file, &1u64.to_le_bytes(), 8).expect("the file is ours");
    if let Some(mut recorder) = keeper.other {
        recorder.wait().expect("it was started");
    }
    // The stores are 1, 2, 3, ...: what is there is a beginning, which ends before or after the last tick that was seen.
    let when = |tick: u64| times[2 + tick.max(1) as usize];
    let lost = |stores: u64| when(ticks).saturating_sub(when(stores.min(ticks))) as f64 / 1e6;
    let trace = Trace::at(dir.path().join("t.memtap"));
    let young = trace.ask("stat", &[]);
    if young.status == 1 {
        // Nothing had been written yet, as on a machine that gave the recorder no time.
        assert_eq!(young.err().lines().count(), 1, "{}", young.err());
        return lost(0);
    }
    for command in [&["stat"][..], &["report", "--by", "thread"]] {
        let answer = trace.ask(command[0], &command[1..]);
        assert_eq!(answer.status, 0, "{after:?}: {}", answer.err());
        assert!(answer.err().contains("; see memtap check"), "{command:?} after {after:?}: {}", answer.err());
    }
    let stores = e2e::total_of(&trace.variables(), "ticks").stores;
    assert!(stores <= times[0] + 1, "{stores} of {} ticks", times[0]);
    lost(stores)
}

fn kill(server: bool) {
    let kills = std::env::var("MEMTAP_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let program = TestProgram::from_source("ticking.c", TICKING, &["-O1"]);
    let mut seed = if server { 0x2545_f491_4f6c_dd1d } else { 0x9e37_79b9_7f4a_7c15_u64 };
    let mut lost: Vec<f64> = (0..kills)
        .map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            lost_at(server, Duration::from_millis(EARLIEST + seed % (LATEST - EARLIEST)), &program)
        })
        .collect();
    lost.sort_by(f64::total_cmp);
    let who = if server { "server" } else { "recorder" };
    if let (Some(most), middle) = (lost.last(), lost[lost.len() / 2]) {
        println!(
            "{who} killed {kills} times: the last {middle:.0} ms are lost in the middle case, {most:.0} ms at most"
        );
    }
}

#[test]
fn a_killed_recorder_leaves_all_but_the_last_of_it() {
    kill(false);
}

#[test]
fn a_killed_server_leaves_all_but_the_last_of_it() {
    kill(true);
}
