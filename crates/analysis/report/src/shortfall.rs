//! What a trace lacks, in one line. It is shown beside all figures from a damaged trace.

use std::collections::BTreeMap;

use trace_format::{Damage, Trace};

use crate::number::amount;

/// What is damaged or missing of all that was read of a trace so far, without the file's name; `None` for a sound one.
pub fn shortfall(trace: &Trace) -> Option<String> {
    let names: BTreeMap<u32, String> =
        trace.streams().map(|stream| (stream.number, stream.description.name)).collect();
    line(&trace.damage_met(), &names)
}

fn line(damage: &[Damage], names: &BTreeMap<u32, String>) -> Option<String> {
    let mut end = None;
    let mut elsewhere = Vec::new();
    let mut lost: BTreeMap<String, u64> = BTreeMap::new();
    for thing in damage {
        match (thing, thing.stream()) {
            (Damage::NotClosed, _) => {
                end = Some("it was not closed, so what its recorder had not written is missing".to_owned())
            }
            (Damage::Ended { why }, _) => end = Some(format!("{why}, so what came after that is missing")),
            (thing, Some(stream)) => {
                let name = names.get(&stream).cloned().unwrap_or_else(|| format!("stream {stream}"));
                *lost.entry(name).or_default() += thing.lost_entries();
            }
            (Damage::FileHeader, None) => elsewhere.push("the file header is damaged".to_owned()),
            (Damage::Bytes { len, .. }, None) => {
                elsewhere.push(format!(
                    "{} {} no frame",
                    amount(*len, "byte"),
                    if *len == 1 { "is" } else { "are" }
                ));
            }
            (_, None) => elsewhere.push("a directory is damaged".to_owned()),
        }
    }
    elsewhere.dedup();
    let streams = lost.into_iter().map(|(name, entries)| match entries {
        0 => format!("a frame of {name} can't be read"),
        n => format!("{} of {name} can't be read", amount(n, "entry")),
    });
    let mut parts: Vec<String> = streams.chain(elsewhere).collect();
    if let Some(end) = end {
        parts.insert(0, end);
    }
    (!parts.is_empty()).then(|| format!("{}; figures lack that; see memtap check", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use trace_format::EndReason;

    use super::*;

    fn check(damage: &[Damage], expect: Option<&str>) {
        let names = BTreeMap::from([(3, "regions".to_owned())]);
        assert_eq!(line(damage, &names).as_deref(), expect);
    }

    #[test]
    fn damage_is_summed_up_by_stream() {
        check(&[], None);
        check(
            &[Damage::NotClosed],
            Some(
                "it was not closed, so what its recorder had not written is missing; figures lack that; see memtap check",
            ),
        );
        check(
            &[Damage::Ended { why: EndReason::ClientVanished }],
            Some(
                "the connection to its recorder ended, so what came after that is missing; figures lack that; see memtap check",
            ),
        );
        let frame = |offset, stream, entries| Damage::Frame {
            offset,
            stream,
            entries,
            what: "its checksum does not hold",
        };
        check(
            &[frame(8, 3, 1000), frame(9, 3, 500), frame(10, 4, 1), frame(11, 0, 0), frame(12, 0, 0)],
            Some(
                "1 500 entries of regions can't be read; 1 entry of stream 4 can't be read; a directory is damaged; figures lack that; see memtap check",
            ),
        );
    }
}
