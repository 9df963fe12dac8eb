//! A remote server that writes the trace.

use std::path::PathBuf;

use trace_server::{Address, Client, Credentials, read_token};

use crate::Error;

/// For how long a server is looked for whose connection was cut, if it waits as long.
const PATIENCE_SECONDS: u32 = 600;

/// A server that writes the trace, and how it is convinced.
#[derive(Clone, Debug)]
pub struct RemoteStore {
    /// Where it listens.
    pub address: Address,
    /// The file that holds its token; `None`: $MEMTAP_TOKEN, or what this user's server wrote.
    pub token_file: Option<PathBuf>,
}

impl RemoteStore {
    /// A channel to it.
    ///
    /// # Errors
    /// Where it is not there, does not admit this user, or the token can't be read.
    pub fn connect(&self) -> Result<Client, Error> {
        Client::connect(&self.address, self.token()?.as_deref()).map_err(Error::Connect)
    }

    /// A channel to it to write on, which outlives a cut.
    pub(super) fn connect_to_write(&self) -> Result<Client, Error> {
        let client = self.connect()?;
        if matches!(self.address, Address::Tcp { .. }) {
            client.keep(PATIENCE_SECONDS, |text| eprintln!("memtap: {text}")).map_err(Error::Connect)?;
        }
        Ok(client)
    }

    /// The token: from the file that was named, from the environment, or from where this user's servers put it.
    fn token(&self) -> Result<Option<String>, Error> {
        if matches!(self.address, Address::Unix(_)) {
            return Ok(None);
        }
        if let Some(path) = &self.token_file {
            return Ok(Some(read_token(path)?));
        }
        if let Some(token) = std::env::var_os("MEMTAP_TOKEN") {
            return Ok(Some(token.into_string().unwrap_or_default()));
        }
        let default = Credentials::default_dir().map(|dir| dir.join("token")).filter(|path| path.exists());
        Ok(default.map(|path| read_token(&path)).transpose()?)
    }
}
