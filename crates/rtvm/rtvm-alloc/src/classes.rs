//! Size classes of the caches: few enough that each thread has space for all of them, and close enough that little is wasted.
//!
//! Up to 1,024 bytes a class is one size, in steps of 16. From there to 64 KiB each power of two has eight classes, and a class is a size
//! that malloc rounds up to. It is one of TLSF's own steps (a 32nd) above the round number, so that 4,096 bytes, which programs often
//! request, fit together with their tag, and so that TLSF finds a released block of a class again. Sizes are those of blocks, tag included.

/// The most blocks of a magazine, and so of what one call moves under the lock.
pub const BATCH: usize = 16;
/// A magazine of large blocks has fewer: as many as these bytes, and two at least.
const MAGAZINE_BYTES: usize = 8 << 10;
/// The largest of those classes that have one size each.
const SMALL_BYTES: usize = 1 << SMALL_LOG;
const SMALL_LOG: usize = 10;
const SMALL_CLASSES: usize = SMALL_BYTES / 16 + 1;
/// Classes of a power of two above, as a shift.
const STEPS_LOG: usize = 3;
/// The power of two that has one class only, the last one.
const LAST_LOG: usize = 16;
/// All of them. The first two are too small for any block.
pub(crate) const CLASSES: usize = SMALL_CLASSES + ((LAST_LOG - SMALL_LOG) << STEPS_LOG) + 1;

/// The largest request that caches serve.
pub const MOST_BYTES: usize = class_bytes(CLASSES - 1) - 16;

/// Where the classes of a power of two begin.
const fn first_bytes(log: usize) -> usize {
    (1 << log) + (1 << log) / 32
}

/// Bytes that every block of a class has.
pub(crate) const fn class_bytes(class: usize) -> usize {
    if class < SMALL_CLASSES {
        return class * 16;
    }
    let large = class - SMALL_CLASSES;
    let log = SMALL_LOG + (large >> STEPS_LOG);
    first_bytes(log) + ((large & ((1 << STEPS_LOG) - 1)) << (log - STEPS_LOG))
}

/// The class whose blocks have room for so many bytes; `None`: too many.
#[inline]
pub(crate) const fn class_with_room(bytes: usize) -> Option<usize> {
    if bytes <= SMALL_BYTES {
        return Some(bytes.div_ceil(16));
    }
    let log = bytes.ilog2() as usize;
    let before = SMALL_CLASSES + ((log - SMALL_LOG) << STEPS_LOG);
    let class = before + bytes.saturating_sub(first_bytes(log)).div_ceil(1 << (log - STEPS_LOG));
    if class < CLASSES { Some(class) } else { None }
}

/// The largest class that a block of so many bytes can serve; `None`: it would waste too much.
#[inline]
pub(crate) const fn class_of_block(bytes: usize) -> Option<usize> {
    if bytes <= SMALL_BYTES {
        return Some(bytes / 16);
    }
    let log = bytes.ilog2() as usize;
    let before = SMALL_CLASSES + ((log - SMALL_LOG) << STEPS_LOG);
    let first = first_bytes(log);
    let class = if bytes < first { before - 1 } else { before + ((bytes - first) >> (log - STEPS_LOG)) };
    if class < CLASSES { Some(class) } else { None }
}

/// How many blocks a magazine of each class has at most.
static ROOM: [u8; CLASSES] = {
    let mut room = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        room[class] = magazine_blocks(class) as u8;
        class += 1;
    }
    room
};

const fn magazine_blocks(class: usize) -> usize {
    match MAGAZINE_BYTES / class_bytes(if class == 0 { 1 } else { class }) {
        0 | 1 => 2,
        blocks if blocks < BATCH => blocks,
        _ => BATCH,
    }
}

/// How many blocks a magazine of a class has at most.
#[inline]
pub(crate) fn room(class: usize) -> usize {
    usize::from(ROOM[class])
}

/// Bytes of one full magazine of each class, with what blocks have beyond their class.
pub(crate) const MAGAZINES_BYTES: usize = {
    let (mut bytes, mut class) = (0, 0);
    while class < CLASSES {
        bytes += magazine_blocks(class) * class_bytes(class + 1);
        class += 1;
    }
    bytes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_its_class() {
        assert_eq!(class_bytes(CLASSES - 1), first_bytes(LAST_LOG));
        for bytes in (32..class_bytes(CLASSES)).step_by(16) {
            let of_block = class_of_block(bytes).expect("below the next class");
            assert!(class_bytes(of_block) <= bytes && bytes < class_bytes(of_block + 1), "{bytes}");
            match class_with_room(bytes) {
                Some(class) => {
                    assert!(class_bytes(class) >= bytes && class_bytes(class - 1) < bytes, "{bytes}");
                    // No more than an eighth is wasted.
                    assert!(class_bytes(class) - bytes <= bytes / 8, "{bytes}");
                    // What is given out comes back to where it was taken from.
                    assert_eq!(class_of_block(class_bytes(class)), Some(class));
                }
                None => assert!(bytes > class_bytes(CLASSES - 1), "{bytes}"),
            }
        }
        assert_eq!(class_of_block(class_bytes(CLASSES)), None);
        assert!(class_with_room((64 << 10) + 16).is_some(), "64 KiB with a tag");
        for round in [1024, 4096, 8192, 65_536] {
            let class = class_with_room(round + 16).expect("cached");
            assert!(class_bytes(class) - round <= round / 32, "{round}");
        }
    }

    #[test]
    fn magazines_have_room_for_a_batch_at_most() {
        for class in 0..CLASSES {
            assert!((2..=BATCH).contains(&room(class)));
            assert!(room(class) == 2 || room(class) * class_bytes(class) <= MAGAZINE_BYTES);
        }
    }
}
