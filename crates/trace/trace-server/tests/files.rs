//! Files of traces at a server, read as if they lay here: whole traces, growing ones, and the index beside them.

mod common;

use std::io::ErrorKind;

use common::{place, remote, sample, sample_type};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use trace_format::{Encoders, Limits, PageIndex, Trace, TraceSource};
use trace_server::{Client, EntryStream, ServerFile, TraceOptions};

/// Writes a trace of so many entries and leaves it open.
fn begin(client: &Client, name: &str, count: u64) -> u32 {
    client.create_session("writer").unwrap();
    client.create_trace(name, &TraceOptions::default()).unwrap();
    let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    add(client, stream, 0..count);
    stream
}

fn add(client: &Client, stream: u32, numbers: std::ops::Range<u64>) {
    let mut writer = client.writer(stream).unwrap();
    numbers.for_each(|number| writer.push(&sample(number)).unwrap());
    writer.close().unwrap();
    client.flush(false).unwrap();
}

fn whole(source: &dyn TraceSource) -> Vec<u8> {
    let mut bytes = vec![0; source.len_bytes().unwrap() as usize];
    source.read_at(0, &mut bytes).unwrap();
    bytes
}

fn reads_what_lies_there(place: &common::Place, client: Client) {
    let file = ServerFile::open(client, "sub.memtap").unwrap();
    let bytes = std::fs::read(place.file("sub.memtap")).unwrap();
    assert!(whole(&file) == bytes);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(64));
    let parts = (0..bytes.len() as u64 + 9, 0usize..5000);
    let read = |(offset, len): (u64, usize)| {
        let mut part = vec![0; len];
        match file.read_at(offset, &mut part) {
            Ok(()) => prop_assert_eq!(Some(&part[..]), bytes.get(offset as usize..offset as usize + len)),
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
                prop_assert!(offset as usize + len > bytes.len());
            }
        }
        Ok(())
    };
    // Nothing can be read from anywhere.
    runner.run(&parts.prop_filter("some", |(_, len)| *len > 0), read).unwrap();

    let index = place.file("sub.memtap.mtx");
    assert!(file.beside(PageIndex::SUFFIX).unwrap().is_none());
    std::fs::write(&index, b"an index").unwrap();
    let beside = file.beside(PageIndex::SUFFIX).unwrap().expect("it is there");
    assert_eq!(whole(&*beside), b"an index");
    assert!(file.beside(".txt").unwrap().is_none(), "nothing else is asked for");
    std::fs::remove_file(index).unwrap();

    let trace = Trace::open_on(Box::new(file), "there", Encoders::default(), Limits::default()).unwrap();
    assert!(trace.closed() && !trace.is_here());
    assert_eq!(trace.streams().map(|stream| stream.entries).sum::<u64>(), 300_000);
    assert!(trace.check().unwrap().is_sound());
}

#[test]
fn a_trace_is_read_as_it_lies_there() {
    let (place, address, token) = remote("127.0.0.1").unwrap();
    let writer = place.client();
    begin(&writer, "sub.memtap", 300_000);
    writer.close_trace().unwrap();
    reads_what_lies_there(&place, place.client());
    reads_what_lies_there(&place, Client::embedded(&place.engine));
    reads_what_lies_there(&place, Client::connect(&address, Some(&token)).unwrap());
}

#[test]
fn a_trace_that_grows_is_read_as_far_as_it_is() {
    let place = place();
    let writer = place.client();
    let stream = begin(&writer, "live", 100_000);
    let file = ServerFile::open(place.client(), "live").unwrap();
    let open = || {
        let (file, limits) = (Box::new(file.clone()), Limits::default());
        Trace::open_on(file, "there", Encoders::default(), limits).unwrap()
    };
    let before = open();
    assert_eq!(before.streams().map(|stream| stream.entries).sum::<u64>(), 100_000);
    assert!(!before.closed());
    assert_eq!(before.bytes_now().unwrap(), before.file_bytes());
    add(&writer, stream, 100_000..150_000);
    assert!(before.bytes_now().unwrap() > before.file_bytes());
    assert_eq!(open().streams().map(|stream| stream.entries).sum::<u64>(), 150_000);
    writer.close_trace().unwrap();
    assert!(open().closed());
}

#[test]
fn what_is_not_there_or_not_ours_is_one_line() {
    let place = place();
    std::fs::write(place.file("text"), "no trace").unwrap();
    for (name, words) in [
        ("none", "none: cannot be opened"),
        ("../x", "outside the server's root"),
        ("text", "not a memtap trace"),
    ] {
        let error = ServerFile::open(place.client(), name).unwrap_err().to_string();
        assert!(error.contains(words) && error.lines().count() == 1, "{error}");
    }
}
