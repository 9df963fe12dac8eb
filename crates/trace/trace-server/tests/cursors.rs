//! Data of any length, forward and backward iteration, and several streams as one, compared with simple lists.

mod common;

use common::{Place, place, remote, sample, sample_type};
use memref::VirtAddr;
use proptest::prelude::*;
use trace_format::{Filter, Guid, Trace};
use trace_server::{Client, EntryStream, OpenMode, TraceOptions};

fn begin(client: &Client, name: &str) {
    client.create_session(name).unwrap();
    let options = TraceOptions { segment_entries: 1000, replace: true, ..TraceOptions::default() };
    client.create_trace(name, &options).unwrap();
}

/// Data of lengths around those of blocks and buffers.
fn data() -> Vec<Vec<u8>> {
    let lengths = [0, 1, 61, 62, 63, 124, 125, 4000, 0, 300_000, 62, 5];
    let datum = |(place, len): (usize, &usize)| (0..*len).map(|at| (at * 7 + place) as u8).collect();
    lengths.iter().enumerate().map(datum).collect()
}

fn writes_data(client: &Client, place: &Place, name: &str) {
    begin(client, name);
    let stream = client.add_stream(&EntryStream::of_data("messages", Guid([9; 16]))).unwrap();
    let mut references = Vec::new();
    // By one writer after the other.
    for part in data().chunks(5) {
        let mut writer = client.data_writer(stream).unwrap();
        references.extend(part.iter().map(|datum| writer.push(datum).unwrap()));
        let refused = client.data_writer(stream).unwrap_err().to_string();
        assert!(refused.contains("have a writer already"), "{refused}");
        writer.close().unwrap();
    }
    client.flush(false).unwrap();
    let mut reader = client.data_reader(stream).unwrap();
    for (datum, &reference) in data().iter().zip(&references).rev() {
        assert_eq!(reader.get(reference).unwrap().as_ref(), Some(datum), "{reference}");
    }
    // In the middle of one, and behind the last.
    assert_eq!(reader.get(references[7] + 1).unwrap(), None);
    assert_eq!(reader.get(references[11] + 1).unwrap(), None);
    assert_eq!(reader.get(u64::MAX).unwrap(), None);
    drop(reader);
    client.close_trace().unwrap();
    client.leave_session().unwrap();
    assert!(Trace::open(place.file(name)).unwrap().check().unwrap().is_sound());
    // Somebody appends to them later.
    client.create_session(name).unwrap();
    client.open_trace(name, OpenMode::Append).unwrap();
    let mut writer = client.data_writer(stream).unwrap();
    let reference = writer.push(b"one more").unwrap();
    writer.close().unwrap();
    client.flush(false).unwrap();
    let mut reader = client.data_reader(stream).unwrap();
    assert_eq!(reader.get(reference).unwrap().as_deref(), Some(&b"one more"[..]));
    assert_eq!(reader.get(references[9]).unwrap().as_ref(), data().get(9));
}

#[test]
fn data_of_any_length_are_found_by_their_references() {
    let local = place();
    writes_data(&local.client(), &local, "socket.memtap");
    writes_data(&Client::embedded(&local.engine), &local, "embedded.memtap");
    let (far, address, token) = remote("127.0.0.1").unwrap();
    writes_data(&Client::connect(&address, Some(&token)).unwrap(), &far, "remote.memtap");
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Next(usize),
    Previous(usize),
    Seek(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        (1usize..3000).prop_map(Move::Next),
        (1usize..3000).prop_map(Move::Previous),
        (0u64..22_000).prop_map(Move::Seek),
        Just(Move::Seek(u64::MAX)),
    ];
    prop::collection::vec(one, 1..8)
}

#[test]
fn a_cursor_goes_both_ways_as_through_a_list() {
    const COUNT: u64 = 20_000;
    let place = place();
    let client = place.client();
    begin(&client, "both.memtap");
    let stream = client.add_stream(&EntryStream::new("samples", sample_type())).unwrap();
    let mut writer = client.writer(stream).unwrap();
    (0..COUNT).for_each(|number| writer.push(&sample(number)).unwrap());
    writer.close().unwrap();
    client.flush(false).unwrap();
    let everything = Filter::default();
    let few = Filter { addresses: vec![VirtAddr(0x1005)..VirtAddr(0x1007)], ..Filter::default() };
    // Far fewer than are looked at in one step.
    let one = Filter { cycles: Some(3..4), ..Filter::default() };
    let mut runner = proptest::test_runner::TestRunner::default();
    for (filter, matches) in [
        (&everything, (|_| true) as fn(u64) -> bool),
        (&few, |number| matches!(number % 100, 5 | 6)),
        (&one, |number| number == 1),
    ] {
        let list: Vec<u64> = (0..COUNT).filter(|number| matches(*number)).collect();
        let goes = |moves: Vec<Move>| {
            let mut cursor = client.cursor(stream, filter).unwrap();
            // The next one of the list.
            let mut next = 0;
            for step in moves {
                match step {
                    Move::Seek(index) => {
                        cursor.seek(index);
                        next = list.partition_point(|number| *number < index);
                    }
                    Move::Next(count) => {
                        for _ in 0..count {
                            let got =
                                cursor.next_entry().unwrap().map(|entry| (entry.index, entry.bytes.to_vec()));
                            let expect = list.get(next).map(|&number| (number, sample(number).to_vec()));
                            prop_assert_eq!(&got, &expect);
                            next += usize::from(expect.is_some());
                        }
                    }
                    Move::Previous(count) => {
                        for _ in 0..count {
                            let got = cursor
                                .previous_entry()
                                .unwrap()
                                .map(|entry| (entry.index, entry.bytes.to_vec()));
                            let before = next.checked_sub(1);
                            let expect = before.map(|before| (list[before], sample(list[before]).to_vec()));
                            prop_assert_eq!(&got, &expect);
                            next = before.unwrap_or(0);
                        }
                    }
                }
            }
            prop_assert_eq!(cursor.lost(), 0);
            Ok(())
        };
        runner.run(&moves(), goes).unwrap();
    }
}

#[test]
fn several_streams_are_one_by_time_or_by_place() {
    let place = place();
    let client = place.client();
    begin(&client, "merged.memtap");
    // Each with cycles of its own: every third, every second, and none.
    let steps = [(3, 2000), (2, 5000), (1, 0)];
    let streams: Vec<u32> = steps
        .iter()
        .enumerate()
        .map(|(place, &(step, count))| {
            let stream = client.add_stream(&EntryStream::new(&format!("s{place}"), sample_type())).unwrap();
            let mut writer = client.writer(stream).unwrap();
            for number in 0..count {
                let mut entry = sample(number);
                entry[..8].copy_from_slice(&(number * step).to_le_bytes());
                writer.push(&entry).unwrap();
            }
            writer.close().unwrap();
            stream
        })
        .collect();
    client.flush(false).unwrap();
    for field in [Some("cycle"), None] {
        let mut expect: Vec<(u64, usize, u64)> = Vec::new();
        for (place, (step, count)) in steps.into_iter().enumerate() {
            expect.extend(
                (0..count)
                    .map(|number| (if field.is_some() { number * step } else { number }, place, number)),
            );
        }
        expect.sort_unstable();
        let mut merged = client.multiplexer(&streams, field, &Filter::default()).unwrap();
        for (_, place, number) in expect {
            let entry = merged.next_entry().unwrap().unwrap();
            assert_eq!(
                (entry.stream, entry.index, &entry.bytes[8..]),
                (streams[place], number, &sample(number)[8..])
            );
        }
        assert_eq!(merged.next_entry().unwrap(), None);
        assert_eq!(merged.next_entry().unwrap(), None);
        assert_eq!(merged.lost(), 0);
    }
    let refused = client.multiplexer(&streams, Some("place"), &Filter::default()).unwrap_err();
    assert!(refused.to_string().contains("no growing field of that name"), "{refused}");
    let refused = client.multiplexer(&[99], None, &Filter::default()).unwrap_err();
    assert_eq!(refused.to_string(), "stream 99: the trace has no such stream");
}
