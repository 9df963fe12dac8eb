//! Clients of a real server over a Unix socket, and of a server in this process.

mod common;

use common::{Place, entries, place, place_with, read_all, sample, sample_type};
use memref::VirtAddr;
use trace_format::{EntryType, Filter, KindSet, Trace};
use trace_server::{By, Client, EntryStream, OpenMode, RefusalReason, TraceOptions};

fn small() -> TraceOptions {
    TraceOptions { segment_entries: 1000, ..TraceOptions::default() }
}

fn write_and_read_back(client: &Client, place: &Place) {
    let number = client.create_session("one").unwrap();
    assert_eq!(client.sessions().unwrap()[0].session, number);
    client.create_trace("sub.memtap", &small()).unwrap();
    client.add_property("tracer", "test").unwrap();
    let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    let mut writer = client.writer_with(stream, 4096, 2).unwrap();
    let count = 5_432;
    for entry in 0..count {
        writer.push(&sample(entry)).unwrap();
    }
    // What is not submitted is seen all the same.
    client.flush(false).unwrap();
    let read = read_all(client, stream, &Filter::default());
    assert_eq!(read.len() as u64, count);
    for (place, (index, entry)) in read.iter().enumerate() {
        assert_eq!((*index, &entry[..]), (place as u64, &sample(*index)[..]));
    }
    assert_eq!(client.seek(stream, By::Cycle, 3000).unwrap(), 1000);
    assert_eq!(client.seek(stream, By::Cycle, 3001).unwrap(), 1001);
    assert_eq!(client.seek(stream, By::Cycle, u64::MAX).unwrap(), count);
    assert_eq!(client.seek(stream, By::Index, 77).unwrap(), 77);
    assert_eq!(client.seek(stream, By::WallNs, 0).unwrap(), 0);
    assert_eq!(client.seek(stream, By::WallNs, u64::MAX).unwrap(), count);
    let filter = Filter {
        cycles: Some(3000..6000),
        addresses: vec![VirtAddr(0x1005)..VirtAddr(0x1007)],
        ..Filter::default()
    };
    let filtered = read_all(client, stream, &filter);
    let expected: Vec<u64> = (1000..2000).filter(|number| matches!(number % 100, 5 | 6)).collect();
    assert_eq!(filtered.iter().map(|(index, _)| *index).collect::<Vec<_>>(), expected);
    assert!(filtered.iter().all(|(index, entry)| entry[..] == sample(*index)));
    for entry in count..count + 10 {
        writer.push_array(&sample(entry)).unwrap();
    }
    writer.close().unwrap();
    let statistics = client.streams().unwrap();
    let ours = statistics.iter().find(|statistics| statistics.number == stream).unwrap();
    assert_eq!((ours.entries, ours.cycles.max), (count, (count - 1) * 3));
    assert!(client.close_trace().unwrap() > 0);
    client.leave_session().unwrap();
    assert!(client.sessions().unwrap().is_empty());
    let path = place.file("sub.memtap");
    let all: Vec<u8> = (0..count + 10).flat_map(sample).collect();
    assert_eq!(entries(&path, stream), all);
    let trace = Trace::open(&path).unwrap();
    assert!(trace.closed() && trace.check().unwrap().is_sound());
    assert_eq!(trace.properties()["tracer"], "test");
}

#[test]
fn what_is_written_is_read_back_over_a_socket() {
    let place = place();
    write_and_read_back(&place.client(), &place);
}

#[test]
fn what_is_written_is_read_back_in_this_process() {
    let place = place();
    write_and_read_back(&Client::embedded(&place.engine), &place);
}

#[test]
fn a_closed_trace_is_opened_and_read_and_not_written() {
    let place = place();
    write_and_read_back(&place.client(), &place);
    let client = place.client();
    client.create_session("reader").unwrap();
    client.open_trace("memtap:sub.memtap", OpenMode::Read).unwrap();
    let stream = client.streams().unwrap().iter().find(|s| s.description.name == "samples").unwrap().number;
    assert_eq!(read_all(&client, stream, &Filter::default()).len(), 5442);
    let refused = client.writer(stream).unwrap_err();
    assert!(refused.to_string().contains("reading only"), "{refused}");
    let missing = client.reader(99, &Filter::default()).unwrap_err();
    assert!(missing.to_string().contains("no stream 99"), "{missing}");
}

#[test]
fn a_closed_trace_is_added_to() {
    let place = place();
    write_and_read_back(&place.client(), &place);
    let client = place.client();
    client.create_session("more").unwrap();
    client.open_trace("sub.memtap", OpenMode::Append).unwrap();
    let stream = client.streams().unwrap().iter().find(|s| s.description.name == "samples").unwrap().number;
    let mut writer = client.writer(stream).unwrap();
    for entry in 5442..8000 {
        writer.push(&sample(entry)).unwrap();
    }
    writer.close().unwrap();
    let other = client.add_stream(&EntryStream::new("others", sample_type())).unwrap();
    let mut writer = client.writer(other).unwrap();
    writer.push(&sample(1)).unwrap();
    writer.close().unwrap();
    let refused = client.add_property("tracer", "other").unwrap_err();
    assert!(refused.to_string().contains("names"), "{refused}");
    client.close_trace().unwrap();
    client.leave_session().unwrap();
    let path = place.file("sub.memtap");
    let all: Vec<u8> = (0..8000).flat_map(sample).collect();
    assert!(entries(&path, stream) == all);
    assert_eq!(entries(&path, other), sample(1));
    let trace = Trace::open(&path).unwrap();
    assert!(trace.closed() && trace.check().unwrap().is_sound());

    // One that is not whole is not added to.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(place.file("torn"), &bytes[..bytes.len() - 8]).unwrap();
    client.create_session("more").unwrap();
    let refused = client.open_trace("torn", OpenMode::Append).unwrap_err();
    assert!(refused.to_string().contains("torn"), "{refused}");
    assert_eq!(std::fs::read(place.file("torn")).unwrap().len(), bytes.len() - 8);
    let refused = client.open_trace("none", OpenMode::Append).unwrap_err();
    assert!(refused.to_string().contains("none: cannot be opened"), "{refused}");
}

#[test]
fn four_clients_write_four_traces_at_once() {
    let place = place();
    std::thread::scope(|scope| {
        for number in 0..4u64 {
            let place = &place;
            scope.spawn(move || {
                let client = place.client();
                client.create_session("one of four").unwrap();
                client.create_trace(&format!("{number}"), &TraceOptions::default()).unwrap();
                let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
                let mut writer = client.writer(stream).unwrap();
                for entry in 0..100_000 {
                    writer.push(&sample(entry * 4 + number)).unwrap();
                }
                writer.close().unwrap();
                client.close_trace().unwrap();
            });
        }
    });
    for number in 0..4u64 {
        let all: Vec<u8> = (0..100_000).flat_map(|entry| sample(entry * 4 + number)).collect();
        assert!(entries(&place.file(&number.to_string()), 1) == all, "trace {number}");
    }
}

#[test]
fn threads_join_a_session_and_write_streams_of_their_own() {
    let place = place();
    let client = place.client();
    let session = client.create_session("threads").unwrap();
    client.create_trace("t", &small()).unwrap();
    let streams: Vec<u32> = (0..3)
        .map(|n| client.add_stream(&EntryStream::new(&format!("cpu{n}"), sample_type())).unwrap())
        .collect();
    std::thread::scope(|scope| {
        for &stream in &streams {
            let place = &place;
            scope.spawn(move || {
                let own = place.client();
                own.open_session(session).unwrap();
                let mut writer = own.writer(stream).unwrap();
                for entry in 0..3_000 {
                    writer.push(&sample(entry + u64::from(stream))).unwrap();
                }
                writer.close().unwrap();
                own.leave_session().unwrap();
            });
        }
    });
    client.close_trace().unwrap();
    for stream in streams {
        let all: Vec<u8> = (0..3_000).flat_map(|entry| sample(entry + u64::from(stream))).collect();
        assert_eq!(entries(&place.file("t"), stream), all);
    }
}

fn threads_share_a_stream(client: &Client, place: &Place, bytes: usize) {
    client.create_session("shared").unwrap();
    client.create_trace("shared", &small()).unwrap();
    let entry_type = EntryType { entry_bytes: bytes as u32, fields: Vec::new(), ..sample_type() };
    let stream = client.add_stream(&EntryStream::new("all", entry_type)).unwrap();
    let writer = client.shared_writer(stream).unwrap();
    let (threads, each) = (4u32, 40_000u32);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let writer = writer.clone();
            scope.spawn(move || {
                let mut entry = vec![0; bytes];
                for number in 0..each {
                    entry[..4].copy_from_slice(&thread.to_le_bytes());
                    entry[4..8].copy_from_slice(&number.to_le_bytes());
                    writer.push(&entry).unwrap();
                }
            });
        }
    });
    writer.close().unwrap();
    client.close_trace().unwrap();
    let mut next = vec![0; threads as usize];
    for entry in entries(&place.file("shared"), stream).chunks(bytes) {
        let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
        let (thread, number) = (word(0), word(4));
        assert_eq!(number, next[thread as usize], "thread {thread}");
        next[thread as usize] += 1;
    }
    assert_eq!(next, vec![each; threads as usize]);
}

#[test]
fn threads_share_one_stream_without_loss_and_in_their_order() {
    let first = place();
    threads_share_a_stream(&first.client(), &first, 8);
    let second = place();
    threads_share_a_stream(&Client::embedded(&second.engine), &second, 13);
}

#[test]
fn little_memory_costs_segments_but_no_entries() {
    let place = place_with(trace_server::EngineOptions { memory_bytes: 1 << 20, ..common::options() });
    std::thread::scope(|scope| {
        for number in 0..3u64 {
            let place = &place;
            scope.spawn(move || {
                let client = place.client();
                client.create_session("much").unwrap();
                client.create_trace(&format!("{number}"), &TraceOptions::default()).unwrap();
                let streams: Vec<_> = (0..5)
                    .map(|n| client.add_stream(&EntryStream::new(&format!("{n}"), sample_type())).unwrap())
                    .collect();
                let mut writers: Vec<_> =
                    streams.iter().map(|&stream| client.writer_with(stream, 4096, 2).unwrap()).collect();
                for entry in 0..20_000 {
                    for writer in &mut writers {
                        writer.push(&sample(entry)).unwrap();
                    }
                }
                for writer in writers {
                    writer.close().unwrap();
                }
                client.close_trace().unwrap();
            });
        }
    });
    let all: Vec<u8> = (0..20_000).flat_map(sample).collect();
    for number in 0..3 {
        for stream in 1..=5 {
            assert!(entries(&place.file(&number.to_string()), stream) == all, "{number} {stream}");
        }
    }
}

#[test]
fn a_growing_trace_is_read_by_another_client() {
    let place = place();
    let (writer, reader) = (place.client(), place.client());
    writer.create_session("writer").unwrap();
    writer.create_trace("live", &small()).unwrap();
    let stream = writer.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    reader.create_session("reader").unwrap();
    reader.open_trace("live", OpenMode::Read).unwrap();
    let mut source = writer.writer(stream).unwrap();
    let mut live = reader.reader(stream, &Filter::default()).unwrap();
    let (mut index, mut written) = (0, 0);
    for round in 1..20 {
        for _ in 0..round * 100 {
            source.push(&sample(written)).unwrap();
            written += 1;
        }
        writer.flush(false).unwrap();
        while index < written {
            let batch = live.read(index, u32::MAX).unwrap();
            assert!(batch.next_index() > index, "nothing new at {index} of {written}");
            for (place, entry) in batch.entries().enumerate() {
                assert_eq!(entry, sample(batch.index(place)));
            }
            index = batch.next_index();
        }
    }
    // Without a flush too, after a second.
    source.push(&sample(written)).unwrap();
    while live.read(index, 1).unwrap().entries().len() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn kinds_filter_accesses() {
    let place = place();
    let client = place.client();
    client.create_session("kinds").unwrap();
    client.create_trace("kinds", &small()).unwrap();
    let stream = client.add_stream(&EntryStream::new("accesses", EntryType::accesses())).unwrap();
    let mut writer = client.writer(stream).unwrap();
    for number in 0..3000u64 {
        let mut entry = [0; 32];
        entry[..8].copy_from_slice(&number.to_le_bytes());
        entry[24] = 8;
        entry[28] = (number % 3) as u8;
        writer.push(&entry).unwrap();
    }
    writer.flush().unwrap();
    let stores = read_all(&client, stream, &Filter { kinds: KindSet(0b010), ..Filter::default() });
    assert_eq!(stores.len(), 1000);
    assert!(stores.iter().all(|(index, entry)| index % 3 == 1 && entry[28] == 1));
}

#[test]
fn unknown_formats_are_refused_and_names_with_colons_can_be_meant() {
    let place = place();
    let client = place.client();
    client.create_session("formats").unwrap();
    let refused = client.create_trace("laky:x", &TraceOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("no format is called laky") && refused.contains("memtap:laky:x"), "{refused}");
    assert!(!place.file("laky:x").exists());
    for name in ["memtap:laky:x", "./laky:y", "a b:c"] {
        client.create_trace(name, &TraceOptions::default()).unwrap();
        client.close_trace().unwrap();
    }
    assert!(place.file("laky:x").exists() && place.file("laky:y").exists() && place.file("a b:c").exists());
}

#[test]
fn other_formats_are_written_by_their_specifiers() {
    let place = place();
    for (specifier, expected) in [
        ("lackey:out", " L 00001000,8\n S 00001008,8\n M 00001010,8\n"),
        ("din:out2", "0 1000\n1 1008\n0 1010\n1 1010\n"),
    ] {
        let client = place.client();
        client.create_session("text").unwrap();
        client.create_trace(specifier, &TraceOptions::default()).unwrap();
        let stream = client.add_stream(&EntryStream::new("accesses", EntryType::accesses())).unwrap();
        let mut writer = client.writer(stream).unwrap();
        for number in 0..3u64 {
            let mut entry = [0; 32];
            entry[16..24].copy_from_slice(&(0x1000 + number * 8).to_le_bytes());
            entry[24] = 8;
            entry[28] = number as u8;
            writer.push(&entry).unwrap();
        }
        writer.close().unwrap();
        let refused = client.reader(stream, &Filter::default()).unwrap_err();
        assert!(refused.to_string().contains("can only be written"), "{refused}");
        client.close_trace().unwrap();
        let (_, name) = specifier.split_once(':').unwrap();
        assert_eq!(std::fs::read_to_string(place.file(name)).unwrap(), expected);
        let again = client.open_trace(specifier, OpenMode::Read).unwrap_err();
        assert!(again.to_string().contains("can only be written"), "{again}");
    }
}

#[test]
fn refusals_say_what_is_wrong_and_the_channel_goes_on() {
    let place = place();
    let client = place.client();
    let check = |result: Result<(), trace_server::Error>, reason: RefusalReason, text: &str| {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, trace_server::Error::Refused { reason: given, .. } if *given == reason),
            "{error:?}"
        );
        assert!(error.to_string().contains(text), "{error}");
    };
    let options = TraceOptions::default();
    check(client.create_trace("a", &options), RefusalReason::Mode, "in no session");
    client.create_session("s").unwrap();
    check(client.create_session("t").map(|_| ()), RefusalReason::Mode, "already");
    check(client.create_trace("../a", &options), RefusalReason::OutsideRoot, "outside the server's root");
    check(
        client.create_trace("/etc/memtap", &options),
        RefusalReason::OutsideRoot,
        "outside the server's root",
    );
    check(client.open_trace("missing", OpenMode::Read), RefusalReason::File, "missing");
    client.create_trace("a", &options).unwrap();
    check(client.create_trace("b", &options), RefusalReason::Mode, "already");
    let other = place.client();
    check(other.open_session(123_456), RefusalReason::Unknown, "no session 123456");
    other.create_session("o").unwrap();
    check(other.create_trace("a", &options), RefusalReason::File, "already exists");
    check(
        other.create_trace("a", &TraceOptions { replace: true, ..options }),
        RefusalReason::File,
        "is being written",
    );
    check(client.writer(9).map(|_| ()), RefusalReason::Unknown, "no stream 9");
    let mut unknown = EntryStream::new("x", sample_type());
    unknown.encoder = 12_345;
    check(client.add_stream(&unknown).map(|_| ()), RefusalReason::Unknown, "12345");
    let stream = client.add_stream(&EntryStream::new("x", sample_type())).unwrap();
    let short = client.writer(stream).unwrap().push(&[0; 23]).unwrap_err();
    assert!(short.to_string().contains("another length"), "{short}");
    client.close_trace().unwrap();
}
