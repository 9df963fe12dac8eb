//! Clients over TCP with TLS and a token.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::{entries, place, read_all, remote, sample, sample_type};
use trace_format::Filter;
use trace_server::{
    Address, By, Client, Credentials, EntryStream, Error, OpenMode, RefusalReason, Role, TraceOptions,
};

fn write_and_read(host: &str) {
    // A machine may be without IPv6.
    let Some((place, address, token)) = remote(host) else {
        assert_ne!(host, "127.0.0.1");
        return;
    };
    let client = Client::connect(&address, Some(&token)).unwrap();
    client.create_session("remote").unwrap();
    client.create_trace("far", &TraceOptions { segment_entries: 2000, ..Default::default() }).unwrap();
    let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    let mut writer = client.writer_with(stream, 4096, 3).unwrap();
    for number in 0..20_001 {
        writer.push(&sample(number)).unwrap();
    }
    writer.flush().unwrap();
    let read = read_all(&client, stream, &Filter::default());
    assert_eq!(read.len(), 20_001);
    assert!(
        read.iter()
            .enumerate()
            .all(|(at, (index, entry))| at as u64 == *index && entry[..] == sample(*index))
    );
    assert_eq!(client.seek(stream, By::Cycle, 30_000).unwrap(), 10_000);
    let some = Filter { cycles: Some(0..300), ..Filter::default() };
    assert_eq!(read_all(&client, stream, &some).len(), 100);
    writer.close().unwrap();
    client.close_trace().unwrap();
    client.leave_session().unwrap();
    assert_eq!(entries(&place.file("far"), stream).len(), 20_001 * 24);
    client.create_session("again").unwrap();
    client.open_trace("far", OpenMode::Read).unwrap();
    assert_eq!(read_all(&client, stream, &Filter::default()).len(), 20_001);
}

#[test]
fn what_is_written_is_read_back_over_ipv4() {
    write_and_read("127.0.0.1");
}

#[test]
fn what_is_written_is_read_back_over_ipv6() {
    write_and_read("::1");
}

#[test]
fn threads_share_a_stream_of_another_machine() {
    let (place, address, token) = remote("127.0.0.1").unwrap();
    let client = Client::connect(&address, Some(&token)).unwrap();
    client.create_session("shared").unwrap();
    client.create_trace("shared", &TraceOptions::default()).unwrap();
    let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    let writer = client.shared_writer(stream).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let writer = writer.clone();
            scope.spawn(move || {
                for number in 0..20_000 {
                    writer.push(&sample(number * 3 + thread)).unwrap();
                }
            });
        }
    });
    writer.close().unwrap();
    client.close_trace().unwrap();
    let mut all: Vec<_> = entries(&place.file("shared"), stream).chunks(24).map(<[u8]>::to_vec).collect();
    all.sort_by_key(|entry| u64::from_le_bytes(entry[..8].try_into().unwrap()));
    assert!(all.iter().enumerate().all(|(number, entry)| entry[..] == sample(number as u64)));
    assert_eq!(all.len(), 60_000);
}

#[test]
fn without_the_token_nobody_comes_in() {
    let (_place, address, token) = remote("127.0.0.1").unwrap();
    let none = Client::connect(&address, None).unwrap_err();
    assert!(none.to_string().contains("a token is needed"), "{none}");
    let nonsense = Client::connect(&address, Some("please")).unwrap_err();
    assert!(nonsense.to_string().contains("not a token"), "{nonsense}");
    // The right server, the wrong secret.
    let (_, pin) = token.rsplit_once(':').unwrap();
    let wrong = format!("memtap1:{}:{pin}", "0".repeat(64));
    let refused = Client::connect(&address, Some(&wrong)).unwrap_err();
    assert!(
        matches!(&refused, trace_server::Error::Refused { reason: RefusalReason::NotAdmitted, .. }),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("token is wrong"), "{refused}");
    // The right secret, another server: the secret is not even sent.
    let (secret, _) = token.rsplit_once(':').unwrap();
    let other = format!("{secret}:{}", "0".repeat(64));
    let stranger = Client::connect(&address, Some(&other)).unwrap_err();
    assert!(stranger.to_string().contains("certificate is not the token's"), "{stranger}");
    Client::connect(&address, Some(&token)).unwrap();
}

/// Each token is tried with what it allows and with what it does not.
#[test]
fn a_token_allows_what_its_role_says() {
    let mut place = place();
    let credentials = Credentials::load_or_create(&place.dir.path().join("state")).unwrap();
    let tokens = Role::ALL.map(|role| credentials.token_for(role).to_owned());
    place.server.set_credentials(credentials);
    let address = place.server.listen(&Address::Tcp { host: "127.0.0.1".into(), port: 0 }).unwrap();
    let [reader, writer, administrator] =
        tokens.map(|token| Client::connect(&address, Some(&token)).unwrap());
    let refused = |result: Result<(), Error>, needed: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Refused { reason: RefusalReason::Role, .. }), "{error:?}");
        assert!(error.to_string().ends_with(&format!("one to {needed} is needed")), "{error}");
    };
    let options = TraceOptions::default();
    let session = writer.create_session("writes").unwrap();
    writer.create_trace("a", &options).unwrap();
    let stream = writer.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    let mut entries = writer.writer(stream).unwrap();
    entries.push(&sample(7)).unwrap();
    entries.flush().unwrap();
    refused(writer.end_session(session), "administrate");

    // A reader in the same session reads what is written, and changes nothing.
    reader.open_session(session).unwrap();
    assert_eq!(read_all(&reader, stream, &Filter::default()).len(), 1);
    refused(reader.close_trace().map(|_| ()), "write");
    refused(reader.writer(stream).map(|_| ()), "write");
    refused(reader.add_stream(&EntryStream::new("more", sample_type())).map(|_| ()), "write");
    refused(reader.add_property("key", "value"), "write");
    refused(reader.flush(false), "write");
    reader.leave_session().unwrap();
    reader.create_session("reads").unwrap();
    refused(reader.create_trace("b", &options), "write");
    refused(reader.open_trace("a", OpenMode::Append), "write");
    assert!(!place.file("b").exists());

    // Who administrates sees the session, and ends it; what was written stays.
    let listed = administrator.sessions().unwrap();
    assert!(listed.iter().any(|info| info.session == session && info.specifier == "a"), "{listed:?}");
    administrator.end_session(session).unwrap();
    let gone = administrator.end_session(12_345).unwrap_err();
    assert!(gone.to_string().contains("no session 12345"), "{gone}");
    assert!(entries.push(&sample(8)).and_then(|()| entries.flush()).is_err());
    let again = writer.create_trace("c", &options).unwrap_err().to_string();
    assert!(again.contains("was ended by who administrates"), "{again}");
    assert!(administrator.open_session(session).is_err(), "nobody joins it any more");
    drop(entries);
    writer.leave_session().unwrap();
    reader.open_trace("a", OpenMode::Read).unwrap();
    assert_eq!(read_all(&reader, stream, &Filter::default()).len(), 1);
    reader.close_trace().unwrap();
    let trace = trace_format::Trace::open(place.file("a")).unwrap();
    assert!(
        trace.closed() && !trace.damage().is_empty(),
        "it says that it was cut short: {:?}",
        trace.damage()
    );
}

/// Idle connections took all channels, and a byte now and then kept each of them for ever.
#[test]
fn strangers_that_wait_keep_nobody_out_and_are_closed() {
    let (_place, address, token) = remote("127.0.0.1").unwrap();
    let Address::Tcp { host, port } = &address else { panic!("{address} is no TCP address") };
    let strangers: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect((host.as_str(), *port)).unwrap()).collect();
    let client = Client::connect(&address, Some(&token)).unwrap();
    client.create_session("among strangers").unwrap();
    // One that says something again and again, but not who it is: the begin of a TLS record that never ends.
    let mut talker = strangers.last().unwrap();
    talker.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let record = [0x16, 0x03, 0x01, 0x40, 0x00];
    let closed = (0..600).any(|at| {
        let byte = record.get(at).copied().unwrap_or(0);
        let said = (&mut talker).write_all(&[byte]);
        let heard = (&mut talker).read(&mut [0; 16]);
        said.is_err()
            || match heard {
                Ok(count) => count == 0,
                Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            }
    });
    assert!(closed, "a minute of bytes is no greeting");
    client.create_trace("alive", &TraceOptions::default()).unwrap();
    Client::connect(&address, Some(&token)).unwrap();
}

#[test]
fn nobody_listens_on_tcp_without_a_token() {
    let mut place = place();
    let refused = place.server.listen(&Address::Tcp { host: "127.0.0.1".into(), port: 0 }).unwrap_err();
    assert!(refused.to_string().contains("without a token"), "{refused}");
}

#[test]
fn paths_out_of_the_root_are_refused() {
    let (place, address, token) = remote("127.0.0.1").unwrap();
    std::os::unix::fs::symlink("../outside", place.file("link")).unwrap();
    let client = Client::connect(&address, Some(&token)).unwrap();
    client.create_session("bad").unwrap();
    for name in ["../outside", "link", "/tmp/outside"] {
        let options = TraceOptions { replace: true, ..Default::default() };
        let refused = client.create_trace(name, &options).unwrap_err();
        assert!(refused.to_string().contains("outside the server's root"), "{refused}");
        let refused = client.open_trace(name, OpenMode::Read).unwrap_err();
        assert!(refused.to_string().contains("outside the server's root"), "{refused}");
    }
    assert!(!place.dir.path().join("outside").exists());
}
