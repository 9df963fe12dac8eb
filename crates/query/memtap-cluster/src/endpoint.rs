//! Where a process of the cluster listens.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ballista_core::BALLISTA_VERSION;

/// How long somebody may take to say who they are.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than the head of an answer has.
const HEAD_BYTES: u64 = 4096;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        match parts {
            Some((host, port)) if !host.is_empty() && !host.contains('/') => {
                Ok(Self { host: host.to_owned(), port })
            }
            _ => Err("give HOST:PORT".to_owned()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Endpoint {
    /// With a port that is free, where none is named.
    pub(crate) fn with_port(&self) -> Result<Self> {
        let listener = TcpListener::bind((self.host.as_str(), self.port));
        let address = listener.and_then(|listener| listener.local_addr());
        let address = address.with_context(|| format!("{self}: can't be listened at"))?;
        Ok(Self { host: address.ip().to_string(), port: address.port() })
    }

    /// Makes sure that a scheduler of this version listens there.
    ///
    /// # Errors
    /// Where nobody or somebody else does.
    pub(crate) fn check(&self) -> Result<()> {
        let head = self.head().with_context(|| format!("no scheduler answers at {self}"))?;
        let server = head.lines().find_map(|line| line.strip_prefix("server: ballista/"));
        match server.map(str::trim) {
            Some(version) if version == BALLISTA_VERSION => Ok(()),
            Some(version) => bail!(
                "{self}: is a scheduler of Ballista {version}, and this is memtap with Ballista {BALLISTA_VERSION}"
            ),
            None => bail!("{self}: is no scheduler; memtap cluster scheduler starts one"),
        }
    }

    /// The head of what a server says, in lower case. What is no server of HTTP may end the connection before it has said anything.
    fn head(&self) -> io::Result<String> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return Ok(said_by(stream).unwrap_or_default()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn said_by(mut stream: TcpStream) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: scheduler\r\nConnection: close\r\n\r\n")?;
    let mut said = Vec::new();
    stream.take(HEAD_BYTES).read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_a_port_are_wanted() {
        let read = |text: &str| text.parse::<Endpoint>().ok().map(|one| one.to_string());
        assert_eq!(read("localhost:50050").as_deref(), Some("localhost:50050"));
        assert_eq!(read("10.0.0.1:1").as_deref(), Some("10.0.0.1:1"));
        for wrong in ["localhost", ":50050", "localhost:", "http://localhost:50050", "localhost:99999"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
