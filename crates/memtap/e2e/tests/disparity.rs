//! The example of MadT's section IV: the trace of `findDisparity` reads as Listing 2.

use e2e::TestProgram;

/// A line of the symbolic format, taken apart: `L$0:<malloc0003@fMallocHandle+45>+8,[heap],findDisparity+73`.
#[derive(Debug, PartialEq)]
struct Line {
    letter: char,
    allocation: String,
    offset: u64,
    region: String,
    function: String,
}

fn parse(line: &str) -> Option<Line> {
    let (letter, rest) = (line.chars().next()?, line.get(1..)?.strip_prefix('$')?);
    let (_, rest) = rest.split_once(':')?;
    let (name, rest) = rest.strip_prefix('<')?.split_once(">+")?;
    let mut parts = rest.split(',');
    let offset = parts.next()?.parse().ok()?;
    let region = parts.next()?.to_owned();
    let function = parts.next()?.split('+').next()?.to_owned();
    Some(Line { letter, allocation: name.to_owned(), offset, region, function })
}

#[test]
fn find_disparity_reads_as_listing_2() {
    let trace = TestProgram::named("disparity.c").record().trace;
    let lines: Vec<Line> =
        trace.symbolic().iter().filter_map(|l| parse(l)).filter(|l| l.function == "findDisparity").collect();
    assert_eq!(lines.len(), 7 * 130, "seven accesses in each of 130 turns");
    // minSAD, retDisp and retSAD are allocated in this order.
    let name = |number: u64, kind: char| {
        let found = &lines
            .iter()
            .find(|l| l.allocation.contains(&format!("{number:04}@")))
            .expect("a block of that number")
            .allocation;
        assert!(found.starts_with(&format!("malloc{number:04}@{kind}MallocHandle+")), "{found}");
        found.clone()
    };
    let numbers = {
        let mut all: Vec<&str> = lines.iter().map(|l| &l.allocation[6..10]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 3, "{all:?}");
        all.iter().map(|n| n.parse::<u64>().expect("four digits")).collect::<Vec<_>>()
    };
    let (min_sad, ret_disp, ret_sad) = (name(numbers[0], 'f'), name(numbers[1], 'i'), name(numbers[2], 'f'));
    for (turn, seven) in lines.chunks(7).enumerate() {
        let data = 8 + 4 * turn as u64;
        let expected = [
            ('L', &ret_sad, 0),
            ('L', &ret_sad, data),
            ('L', &min_sad, 0),
            ('L', &min_sad, data),
            ('S', &min_sad, data),
            ('L', &ret_disp, 0),
            ('S', &ret_disp, data),
        ];
        for (line, (letter, allocation, offset)) in seven.iter().zip(expected) {
            assert_eq!(
                (line.letter, &line.allocation, line.offset),
                (letter, allocation, offset),
                "turn {turn}"
            );
            assert_eq!(line.region, "[heap]");
        }
    }
    // The last turn, as the paper works it out: retSAD->data[129].
    assert_eq!(lines[7 * 129 + 1].offset, 524);
}

#[test]
fn allocations_are_lines_of_their_own() {
    let trace = TestProgram::named("disparity.c").record().trace;
    let allocations: Vec<String> = trace.symbolic().into_iter().filter(|l| l.starts_with("M$")).collect();
    assert_eq!(allocations.len(), 3, "{allocations:?}");
    for line in &allocations {
        assert!(line.contains(":<malloc0") && line.ends_with(",528"), "{line}");
    }
}
