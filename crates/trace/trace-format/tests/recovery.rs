//! Whatever happens to the file or to the recorder, everything flushed is read back, nothing wrong is read, and what is missing is named.

mod common;

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use memref::{Access, AccessKind, Event, GapReason, ThreadId, VirtAddr};
use proptest::prelude::*;
use trace_format::{CreateOptions, Damage, Filter, ProcessRecord, ThreadRecord, Trace, TraceWriter};

use common::{assert_nothing_wrong, events, open, small, small_file};

#[test]
fn a_file_cut_at_any_byte_gives_all_whole_frames_and_nothing_wrong() {
    let (bytes, model) = (small_file(), small());
    let frames = common::data_frames(&bytes, 16);
    for len in 0..bytes.len() {
        let cut = bytes[..len].to_vec();
        let trace = match open(cut) {
            Ok(trace) => trace,
            Err(error) => {
                assert!(len < 64, "{len}: {error}");
                let expected = if len < 8 { "not a memtap trace" } else { "truncated" };
                assert!(error.to_string().contains(expected), "{len}: {error}");
                continue;
            }
        };
        assert!(!trace.closed(), "{len}");
        assert!(trace.damage().contains(&Damage::NotClosed));
        assert_nothing_wrong(&trace, &model);
        for record in trace.threads() {
            let ended = record.end_ns.is_some();
            let all = events(&trace.shard(record.thread), &Filter::default());
            let last = matches!(all.last(), Some(Event::Gap(gap)) if gap.reason == GapReason::Killed);
            assert!(last || ended, "{len}: thread {} may have gone on", record.thread.0);
        }
        let whole = frames.iter().filter(|range| range.end <= len).count() as u64;
        let read: u64 = trace
            .streams()
            .filter(|stream| stream.description.name == "accesses")
            .map(|stream| stream.frames)
            .sum();
        assert_eq!(read, whole, "{len}");
        assert!(!trace.check().unwrap().is_sound());
    }
    let trace = open(bytes).unwrap();
    assert!(trace.closed() && trace.check().unwrap().is_sound());
    assert_eq!(assert_nothing_wrong(&trace, &model), model.shards.iter().map(Vec::len).sum::<usize>());
}

#[test]
fn a_flipped_bit_anywhere_is_found_and_nothing_wrong_is_read() {
    let (bytes, model) = (small_file(), small());
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let Ok(trace) = open(flipped) else {
            assert!(at < 64, "byte {at}");
            continue;
        };
        assert_nothing_wrong(&trace, &model);
        assert!(!trace.check().unwrap().is_sound(), "byte {at}");
    }
}

#[test]
fn damaged_frames_are_gaps_with_their_number_of_entries() {
    let mut bytes = small_file();
    let range = common::data_frames(&bytes, 16)[1].clone();
    let entries = u64::from_le_bytes(bytes[range.start + 48..range.start + 56].try_into().unwrap());
    bytes[range.start + 192] ^= 4;
    let trace = open(bytes).unwrap();
    assert!(trace.closed(), "directories are intact");
    let lost = |thread| {
        let mut cursor = trace.shard(ThreadId(thread)).accesses(&Filter::default());
        while cursor.next_block().unwrap().is_some() {}
        cursor.lost().iter().map(|gap| gap.count).sum::<u64>()
    };
    assert_eq!(lost(0) + lost(1), entries);
    assert_eq!(trace.check().unwrap().lost_entries, entries);
}

#[test]
fn the_frame_that_the_file_ends_in_is_a_gap() {
    let bytes = small_file();
    let last = common::data_frames(&bytes, 16).pop().unwrap();
    let entries = u64::from_le_bytes(bytes[last.start + 48..last.start + 56].try_into().unwrap());
    let trace = open(bytes[..last.end - 1].to_vec()).unwrap();
    let torn = |damage: &Damage| matches!(damage, Damage::Torn { entries: count, .. } if *count == entries);
    assert!(trace.damage().iter().any(torn), "{:?}", trace.damage());
    let read = [0, 1].map(|thread| events(&trace.shard(ThreadId(thread)), &Filter::default()));
    let gaps = read.iter().flatten().filter_map(|event| match event {
        Event::Gap(gap) if gap.reason == GapReason::DamagedFrame => Some(gap.count),
        _ => None,
    });
    assert_eq!(gaps.sum::<u64>(), entries);
    assert_eq!(trace.check().unwrap().lost_entries, entries);
}

#[test]
fn directories_tell_what_a_frame_with_a_damaged_header_held() {
    let mut bytes = small_file();
    bytes.truncate(bytes.len() - 208);
    // The last frame of its stream: no later one tells that it is missing.
    let last = common::data_frames(&bytes, 16).pop().unwrap();
    let entries = u64::from_le_bytes(bytes[last.start + 48..last.start + 56].try_into().unwrap());
    bytes[last.start + 50] ^= 1;
    let trace = open(bytes).unwrap();
    assert!(!trace.closed());
    let read = [0, 1].map(|thread| events(&trace.shard(ThreadId(thread)), &Filter::default()));
    let gaps = read.iter().flatten().filter_map(|event| match event {
        Event::Gap(gap) if gap.reason == GapReason::DamagedFrame => Some(gap.count),
        _ => None,
    });
    assert_eq!(gaps.sum::<u64>(), entries);
    assert_eq!(trace.check().unwrap().lost_entries, entries);
}

#[test]
fn a_trace_with_a_damaged_file_header_is_read_by_its_frames() {
    let mut bytes = small_file();
    bytes[20] ^= 1;
    let trace = open(bytes.clone()).unwrap();
    assert!(trace.damage().contains(&Damage::FileHeader));
    assert_eq!(trace.session(), None);
    let all = small().shards.iter().map(Vec::len).sum::<usize>();
    assert_eq!(assert_nothing_wrong(&trace, &small()), all);
    bytes.truncate(64);
    let error = open(bytes).unwrap_err().to_string();
    assert_eq!(
        error,
        "test: the file header (offset 0) is damaged and no frame follows; nothing can be recovered"
    );
}

#[test]
fn foreign_files_newer_versions_and_files_in_the_way_are_named() {
    let check = |bytes: &[u8], expected: &str| {
        assert_eq!(open(bytes.to_vec()).unwrap_err().to_string(), expected);
    };
    check(b"", "test: not a memtap trace (its first bytes are not those of one)");
    check(&[0x7f; 500], "test: not a memtap trace (its first bytes are not those of one)");
    let mut newer = small_file();
    newer[8] = 6;
    let checksum = xxhash_rust::xxh3::xxh3_64(&newer[..56]);
    newer[56..64].copy_from_slice(&checksum.to_le_bytes());
    check(
        &newer,
        "test: written in version 6 of the trace format, this memtap reads up to 5; use a newer one",
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.memtap");
    std::fs::write(&path, "precious").unwrap();
    let error = TraceWriter::create(&path, CreateOptions::default()).unwrap_err().to_string();
    assert!(error.ends_with("already exists; choose another name or overwrite it with --force"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let force = CreateOptions { force: true, ..Default::default() };
    TraceWriter::create(&path, force).unwrap().finish().unwrap();
    assert!(Trace::open(&path).unwrap().check().unwrap().is_sound());
    let error = Trace::open(dir.path().join("none")).unwrap_err().to_string();
    assert!(error.contains("cannot open the file at offset 0: No such file"), "{error}");
}

proptest! {
    #[test]
    fn mutated_files_are_read_or_refused(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4_u8, any::<u8>()), 1..6)
    ) {
        let mut bytes = small_file();
        for (from, to, action, value) in cuts {
            if bytes.is_empty() {
                break;
            }
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            let range = from.min(to)..from.max(to);
            match action {
                0 => bytes[from] ^= value,
                1 => bytes.truncate(from.max(64)),
                2 => bytes[range].fill(value),
                _ => bytes.copy_within(range, 0),
            }
        }
        if let Ok(trace) = open(bytes) {
            assert_nothing_wrong(&trace, &small());
            let _ = trace.check().unwrap();
            let _ = (trace.regions().unwrap(), trace.modules().unwrap(), trace.counters().unwrap());
            let _ = trace.shard(ThreadId(0)).values(&Filter::default()).count();
        }
    }

    #[test]
    fn random_frames_are_read_or_refused(noise: Vec<u8>, at in any::<prop::sample::Index>()) {
        let mut bytes = small_file();
        let frame = common::data_frames(&bytes, 16)[0].start;
        // Content that passes every checksum and still means nothing.
        let at = frame + 16 + at.index(136 + 32);
        for (to, from) in bytes[at..].iter_mut().zip(&noise) {
            *to = *from;
        }
        reseal(&mut bytes, frame);
        if let Ok(trace) = open(bytes) {
            for record in trace.threads() {
                let _ = events(&trace.shard(record.thread), &Filter::default());
            }
            let _ = trace.check().unwrap();
        }
    }
}

/// A frame whose checksums hold: `fields` are bytes 16..152 of its header, as far as they are free.
fn sealed(fields: &[u8; 136], payload: &[u8]) -> Vec<u8> {
    let mut frame = b"mtFRAME\x1a".to_vec();
    frame.extend([0x5a; 8]);
    frame.extend(fields);
    frame.extend([0; 8]);
    let total = 192 + payload.len().next_multiple_of(8);
    frame[16..20].copy_from_slice(&[fields[0] % 4, 0, 1, 0]);
    frame[20..24].copy_from_slice(&u32::from(fields[4] % 4).to_le_bytes());
    frame[32..40].copy_from_slice(&(total as u64).to_le_bytes());
    frame[50..56].fill(0);
    frame[140..152].fill(0);
    frame.extend([[1, 0, 2, 3][usize::from(fields[0] % 4)], 0, 0, 0, 0, 0, 0, 0]);
    frame.extend((payload.len() as u64).to_le_bytes());
    frame.extend((payload.len() as u64).to_le_bytes());
    frame.extend([0; 8]);
    frame.extend(payload);
    frame.resize(total, 0);
    reseal(&mut frame, 0);
    frame
}

proptest! {
    #[test]
    fn any_content_under_good_checksums_is_read_or_refused(
        frames in prop::collection::vec(
            (any::<[u8; 32]>(), any::<u64>(), any::<[u64; 12]>(), prop::collection::vec(any::<u8>(), 0..300)), 0..5),
        description in any::<prop::sample::Index>(),
    ) {
        let golden = small_file();
        let mut bytes = golden[..64].to_vec();
        // A description of the golden file's, so that data frames find their stream.
        let mut at = 64;
        let mut descriptions = Vec::new();
        while at < golden.len() {
            let len = u64::from_le_bytes(golden[at + 32..at + 40].try_into().unwrap()) as usize;
            if golden[at + 16] == 0 {
                let stored = u64::from_le_bytes(golden[at + 168..at + 176].try_into().unwrap()) as usize;
                descriptions.push(golden[at + 192..at + 192 + stored].to_vec());
            }
            at += len;
        }
        let mut fields = [0; 136];
        for stream in 0..4 {
            fields[4] = stream;
            let which = (description.index(descriptions.len()) + usize::from(stream) * 5) % descriptions.len();
            bytes.extend(sealed(&fields, &descriptions[which]));
        }
        for (head, sequence, words, payload) in frames {
            fields[..32].copy_from_slice(&head);
            fields[8..16].copy_from_slice(&(sequence % 3).to_le_bytes());
            for (to, word) in fields[40..].chunks_exact_mut(8).zip(words) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            bytes.extend(sealed(&fields, &payload));
        }
        if let Ok(trace) = open(bytes) {
            prop_assert_eq!(trace.streams().count(), 4);
            for record in trace.threads() {
                let shard = trace.shard(record.thread);
                let _ = events(&shard, &Filter::default());
                let _ = shard.values(&Filter::default()).count();
            }
            let _ = (trace.regions(), trace.modules(), trace.counters(), trace.check());
        }
    }
}

/// Makes the checksums of a frame hold again, if its lengths still make sense.
fn reseal(bytes: &mut [u8], frame: usize) {
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    if bytes[frame + 18..frame + 20] != [1, 0] {
        return;
    }
    let stored = word(bytes, frame + 168) as usize;
    if let Some(payload) = bytes.get(frame + 192..).and_then(|rest| rest.get(..stored)) {
        let checksum = xxhash_rust::xxh3::xxh3_64(payload);
        bytes[frame + 184..frame + 192].copy_from_slice(&checksum.to_le_bytes());
    }
    bytes[frame + 152..frame + 160].fill(0);
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[frame..frame + 192]);
    bytes[frame + 152..frame + 160].copy_from_slice(&checksum.to_le_bytes());
}

const CHILD_PATH: &str = "TRACE_FORMAT_TEST_CHILD_PATH";

fn endless(cycle: u64) -> Access {
    let kind = AccessKind::ALL[cycle as usize % 4];
    Access { cycle, ip: VirtAddr(0x1000 + cycle % 7), addr: VirtAddr(cycle * cycle), size: 4, kind }
}

/// Not a test of its own: what the killed process runs.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD_PATH) else { return };
    let options = CreateOptions { segment_entries: 1_000, ..Default::default() };
    let writer = TraceWriter::create(path, options).unwrap();
    let process = writer.add_process(&ProcessRecord::default()).unwrap();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let thread = writer.add_thread(&ThreadRecord { process, ..Default::default() }).unwrap();
            let mut shard = writer.shard(thread).unwrap();
            std::thread::spawn(move || {
                for cycle in 0.. {
                    shard.push_accesses(&[endless(cycle)]).unwrap();
                    if cycle % 777 == 776 {
                        shard.flush().unwrap();
                        println!("flushed {} {}", thread.0, cycle + 1);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_killed_recorder_loses_nothing_that_it_flushed() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..8_usize {
        let path = dir.path().join(format!("{round}.memtap"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes_until_it_is_killed", "--nocapture"])
            .env(CHILD_PATH, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut flushed = [0_u64; 2];
        // The child is killed (SIGKILL) wherever it is when its n-th line was read.
        for line in lines.map(Result::unwrap) {
            let words: Vec<_> = line.split(' ').collect();
            if let ["flushed", thread, count] = words[..] {
                flushed[thread.parse::<usize>().unwrap()] = count.parse().unwrap();
                if flushed.iter().sum::<u64>() as usize > 777 * (3 + round * 5) {
                    break;
                }
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let trace = Trace::open(&path).unwrap();
        assert!(trace.damage().contains(&Damage::NotClosed));
        for (thread, &flushed) in flushed.iter().enumerate() {
            let mut read = 0;
            let mut cursor = trace.shard(ThreadId(thread as u32)).accesses(&Filter::default());
            while let Some(block) = cursor.next_block().unwrap() {
                for access in block {
                    assert_eq!(*access, endless(read));
                    read += 1;
                }
            }
            assert!(read >= flushed, "{read} of {flushed}");
            assert!(cursor.lost().is_empty());
        }
    }
}
