//! TLS for TCP channels: the server's self-made certificate, and the token, which pins it (docs/protocol.md, *Channels*).
//! There is no other authority: the token lets a client authenticate the server, and the server the client.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, DigitallySignedStruct, ServerConfig, ServerConnection,
    SideData, SignatureScheme, StreamOwned,
};

use crate::channel::Channel;
use crate::{Error, Role};

const PREFIX: &str = "memtap1:";
const SECRET_BYTES: usize = 32;

fn tls(error: impl std::fmt::Display) -> Error {
    Error::Tls { what: error.to_string() }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fingerprint(certificate: &[u8]) -> String {
    hexadecimal(ring::digest::digest(&ring::digest::SHA256, certificate).as_ref())
}

/// A token, and what who shows it may do.
#[derive(Debug)]
struct RoleToken {
    role: Role,
    token: String,
}

/// What a server shows and demands: certificate, key, tokens.
#[derive(Debug)]
pub struct Credentials {
    token: String,
    token_file: PathBuf,
    tokens: Vec<RoleToken>,
    config: Arc<ServerConfig>,
}

impl Credentials {
    /// Where they lie unless told: `$XDG_STATE_HOME/memtap`, or `~/.local/state/memtap`.
    pub fn default_dir() -> Option<PathBuf> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state =
            absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
        state.map(|state| state.join("memtap"))
    }

    /// Those of a directory; made where there are none.
    ///
    /// # Errors
    /// Where the files can't be read or made, or others can read them.
    pub fn load_or_create(dir: &Path) -> Result<Self, Error> {
        let failed = |operation| {
            let what = dir.display().to_string();
            move |source: io::Error| Error::Io { what, operation, cause: source }
        };
        if !dir.exists() {
            std::fs::create_dir_all(dir).map_err(failed("make the directory of the token"))?;
            std::fs::set_permissions(dir, Permissions::from_mode(0o700))
                .map_err(failed("protect the directory of the token"))?;
        }
        // One server at a time makes them.
        let lock = File::open(dir).map_err(failed("open the directory of the token"))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|errno| failed("lock the directory of the token")(errno.into()))?;
        let (token_file, certificate, key) =
            (dir.join("token"), dir.join("certificate.der"), dir.join("key.der"));
        if !token_file.exists() {
            make(&token_file, &certificate, &key)?;
        }
        let token = read_token(&token_file)?;
        let certificate = read_private(&certificate)?;
        let key = read_private(&key)?;
        if !token.ends_with(&fingerprint(&certificate)) {
            let problem = "the certificate beside it is another one";
            return Err(Error::Token { what: token_file.display().to_string(), problem });
        }
        let tokens: Vec<RoleToken> =
            Role::ALL.into_iter().map(|role| RoleToken { role, token: of_role(&token, role) }).collect();
        for RoleToken { role, token } in tokens.iter().filter(|other| other.role != Role::Administrate) {
            let path = dir.join(format!("token.{}", role.name()));
            let text = format!("{token}\n");
            // Where the first one was deleted, these are the former one's.
            if !path.exists() || read_private(&path)? != text.as_bytes() {
                write_private(&path, text.as_bytes())?;
            }
        }
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(tls)?
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(certificate)],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)),
            )
            .map_err(tls)?;
        Ok(Self { token, token_file, tokens, config: Arc::new(config) })
    }

    /// The role of who shows that token.
    pub(crate) fn role_of(&self, shown: &str) -> Option<Role> {
        let right = |known: &&RoleToken| same(known.token.as_bytes(), shown.as_bytes());
        self.tokens.iter().find(right).map(|known| known.role)
    }

    /// The token for that role; that for [`Role::Administrate`] allows everything.
    pub fn token_for(&self, role: Role) -> &str {
        self.tokens.iter().find(|known| known.role == role).map_or("", |known| &known.token)
    }

    /// What clients show that may do everything.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The file that has it.
    pub fn token_file(&self) -> &Path {
        &self.token_file
    }

    pub(crate) fn accept(&self, stream: TcpStream) -> Result<Box<dyn Channel>, Error> {
        let connection = ServerConnection::new(self.config.clone()).map_err(tls)?;
        Ok(Box::new(TlsChannel(StreamOwned::new(connection, stream))))
    }
}

fn make(token_file: &Path, certificate: &Path, key: &Path) -> Result<(), Error> {
    let made = rcgen::generate_simple_self_signed(vec!["memtap".to_owned()]).map_err(tls)?;
    let mut secret = [0; SECRET_BYTES];
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut secret).map_err(|_| tls("no random numbers"))?;
    let token = format!("{PREFIX}{}:{}\n", hexadecimal(&secret), fingerprint(made.cert.der()));
    // The token last: where it is, the others are.
    let files: [(&Path, &[u8]); 3] = [
        (key, &made.signing_key.serialize_der()),
        (certificate, made.cert.der()),
        (token_file, token.as_bytes()),
    ];
    files.into_iter().try_for_each(|(path, bytes)| write_private(path, bytes))
}

/// The token for a role. It follows from the one for all, which does not follow from it.
fn of_role(token: &str, role: Role) -> String {
    let parts = token.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':'));
    match parts.filter(|_| role != Role::Administrate) {
        Some((secret, pin)) => {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
            let own = ring::hmac::sign(&key, role.name().as_bytes());
            format!("{PREFIX}{}:{pin}", hexadecimal(own.as_ref()))
        }
        None => token.to_owned(),
    }
}

/// Compares without telling by the time how much is right.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let failed =
        |source| Error::Io { what: path.display().to_string(), operation: "write the file", cause: source };
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).and_then(|mut file| file.write_all(bytes)).map_err(failed)
}

fn read_private(path: &Path) -> Result<Vec<u8>, Error> {
    let failed =
        |source| Error::Io { what: path.display().to_string(), operation: "read the file", cause: source };
    let mut file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        let problem = "others can read or write it; take their rights away (chmod 600)";
        return Err(Error::Token { what: path.display().to_string(), problem });
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Reads the token that a file holds.
///
/// # Errors
/// Where the file can't be read, others can read it, or it holds no token.
pub fn read_token(path: &Path) -> Result<String, Error> {
    let text = String::from_utf8(read_private(path)?).unwrap_or_default();
    let token = text.trim().to_owned();
    pin(&token, &path.display().to_string())?;
    Ok(token)
}

/// The certificate's fingerprint in a token.
fn pin(token: &str, what: &str) -> Result<String, Error> {
    let bad = || Error::Token { what: what.into(), problem: "this is not a token" };
    let (secret, pin) = token.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':')).ok_or_else(bad)?;
    let hexadecimal = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hexadecimal(secret) && hexadecimal(pin) { Ok(pin.to_ascii_lowercase()) } else { Err(bad()) }
}

/// Accepts one certificate.
#[derive(Debug)]
struct Pin {
    fingerprint: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if fingerprint(certificate) == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::Error::General("the server's certificate is not the token's".into()))
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The client's side.
pub(crate) fn connect(stream: TcpStream, token: &str) -> Result<Box<dyn Channel>, Error> {
    let fingerprint = pin(token, "the token")?;
    let provider = provider();
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pin { fingerprint, provider }))
        .with_no_client_auth();
    let name = ServerName::try_from("memtap").map_err(tls)?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(tls)?;
    Ok(Box::new(TlsChannel(StreamOwned::new(connection, stream))))
}

/// One side of a TLS channel.
struct TlsChannel<C>(StreamOwned<C, TcpStream>)
where
    C: DerefMut + Deref<Target: Sized>;

impl<C, S> Read for TlsChannel<C>
where
    C: DerefMut + Deref<Target = ConnectionCommon<S>>,
    S: SideData,
{
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl<C, S> Write for TlsChannel<C>
where
    C: DerefMut + Deref<Target = ConnectionCommon<S>>,
    S: SideData,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<C, S> Channel for TlsChannel<C>
where
    C: DerefMut + Deref<Target = ConnectionCommon<S>> + Send,
    S: SideData,
{
    fn send(&mut self, bytes: &[u8], _: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    fn descriptor(&mut self) -> Option<OwnedFd> {
        None
    }

    fn limit(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        self.0.sock.set_read_timeout(read)?;
        self.0.sock.set_write_timeout(write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_made_once_and_kept_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let first = Credentials::load_or_create(&path).unwrap();
        let second = Credentials::load_or_create(&path).unwrap();
        assert_eq!(first.token(), second.token());
        for role in Role::ALL {
            assert_eq!(first.token_for(role), second.token_for(role));
            assert_eq!(second.role_of(first.token_for(role)), Some(role));
            let name =
                if role == Role::Administrate { "token".into() } else { format!("token.{}", role.name()) };
            assert_eq!(read_token(&path.join(name)).unwrap(), first.token_for(role));
        }
        assert_eq!(first.role_of(""), None);
        assert_eq!(read_token(first.token_file()).unwrap(), first.token());
        assert_eq!(std::fs::metadata(path.join("key.der")).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(first.token_file()).unwrap();
        let third = Credentials::load_or_create(&path).unwrap();
        assert_ne!(third.token(), first.token());
        assert_eq!(third.role_of(first.token_for(Role::Read)), None);
        assert_eq!(read_token(&path.join("token.read")).unwrap(), third.token_for(Role::Read));
        std::fs::set_permissions(first.token_file(), Permissions::from_mode(0o644)).unwrap();
        let open = Credentials::load_or_create(&path).unwrap_err();
        assert!(open.to_string().contains("chmod 600"), "{open}");
    }

    #[test]
    fn what_is_no_token_is_named() {
        for text in ["", "memtap1:", "memtap1:ab:cd", &format!("memtap1:{}", "0".repeat(129))] {
            assert!(pin(text, "x").unwrap_err().to_string().contains("not a token"), "{text}");
        }
    }
}
