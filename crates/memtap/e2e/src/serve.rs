//! A running `memtap serve`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Limited, memtap, spawn};

/// Serves the traces below a directory on a socket beside them. Returns when it listens; with its address.
pub fn serve(root: &Path) -> (Limited, String) {
    let socket = root.join("socket");
    let url = format!("unix:{}", socket.display());
    let mut command = Command::new(memtap());
    command.args(["serve", "--listen", &url, "--root"]).arg(root);
    let server = spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    let begun = Instant::now();
    while !socket.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the server does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    (server, url)
}
