//! The address of a server.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Error;

/// A server's address, as a URL: `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// TCP: a name or number, and a port.
    Tcp {
        /// Name or number; IPv6 numbers without brackets.
        host: String,
        /// Port.
        port: u16,
    },
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::Address { text: text.into() };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(bad()) } else { Ok(Self::Unix(path.into())) };
        }
        let rest = text.strip_prefix("tcp:").ok_or_else(bad)?;
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) => (host, port),
            // A port alone is one of this machine.
            None => ("localhost", rest),
        };
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(bad)?,
            None if host.contains(':') => return Err(bad()),
            None if host.is_empty() => "localhost",
            None => host,
        };
        Ok(Self::Tcp { host: host.into(), port: port.parse().map_err(|_| bad())? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Option<Address> {
        Some(Address::Tcp { host: host.into(), port })
    }

    #[test]
    fn addresses_are_urls() {
        let check = |text: &str, expected: Option<Address>| {
            assert_eq!(text.parse::<Address>().ok(), expected, "{text}");
        };
        check("unix:/run/memtap.sock", Some(Address::Unix("/run/memtap.sock".into())));
        check("tcp:example.org:7500", tcp("example.org", 7500));
        check("tcp:[::1]:7500", tcp("::1", 7500));
        check("tcp:7500", tcp("localhost", 7500));
        check("tcp::7500", tcp("localhost", 7500));
        for bad in
            ["", "unix:", "tcp:", "tcp:host", "tcp:host:99999", "tcp:::1:7500", "tcp:[::1:7500", "http://x"]
        {
            check(bad, None);
        }
        assert_eq!(tcp("::1", 7).unwrap().to_string(), "tcp:[::1]:7");
    }
}
