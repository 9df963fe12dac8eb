//! The accesses to a part of a machine's physical memory during a part of its run, by what makes them or what they access.

use std::collections::HashMap;
use std::ops::Range;

use memref::ThreadId;
use trace_format::Trace;

use super::names::{GuestNames, Named};
use super::process::{GuestMode, Owner, walk_owned_in};
use super::programs::ProgramPlaces;
use super::walk::Places;
use crate::{AccessRow, Count, Error, ReadProgress};

/// Accesses after which progress is told.
const TOLD: u64 = 1 << 16;

/// Some physical addresses, over some cycles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// Instructions that the machine had executed.
    pub cycles: Range<u64>,
    /// Physical addresses: of the first byte of an access, also where a device answers.
    pub addresses: Range<u64>,
    /// Of one vCPU alone.
    pub cpu: Option<ThreadId>,
}

/// What has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartBy {
    /// The function that makes the access.
    Function,
    /// The variable that is accessed.
    Variable,
    /// The process that executes.
    Process,
}

/// The rows of a part: names with modes, in no order. Tells `progress` how far it is.
///
/// # Errors
/// Where the trace can't be read, and where it is cancelled.
pub fn of_part(
    trace: &Trace,
    part: &MemoryPart,
    by: PartBy,
    progress: &ReadProgress,
) -> Result<Vec<AccessRow>, Error> {
    let programs = ProgramPlaces::find(trace, &[])?;
    let named = if by == PartBy::Variable { Named::Variable } else { Named::Function };
    let mut names = GuestNames::new(trace, named, &programs)?;
    let mut by_name: Vec<Count> = Vec::new();
    let mut by_process: HashMap<(Owner, GuestMode), Count> = HashMap::new();
    let mut places = Places::of_cpus(trace)?;
    let mut walked = 0;
    walk_owned_in(trace, Some(&part.cycles), |owned, access| {
        walked += 1;
        if walked == TOLD {
            walked = 0;
            progress.note(TOLD)?;
        }
        if part.cpu.is_some_and(|cpu| trace.threads()[owned.cpu].thread != cpu) {
            return Ok(());
        }
        let places = &mut places[owned.cpu];
        places.go_to(owned.index)?;
        if !places.physical.address(access).is_some_and(|addr| part.addresses.contains(&addr)) {
            return Ok(());
        }
        if by == PartBy::Process {
            by_process.entry((owned.owner.clone(), owned.mode)).or_default().add(access);
            return Ok(());
        }
        let number = names.near(owned, if by == PartBy::Variable { access.addr } else { access.ip });
        if by_name.len() <= number {
            by_name.resize(number + 1, Count::default());
        }
        by_name[number].add(access);
        Ok(())
    })?;
    let row = |mode: GuestMode, name: String, count| AccessRow {
        name,
        region: mode.name().to_owned(),
        count,
        things: 1,
        ..AccessRow::default()
    };
    let of_names = names.into_list().into_iter().zip(by_name);
    let of_names = of_names.filter(|(_, count)| *count != Count::default());
    let of_names = of_names.map(|((mode, name), count)| row(mode, name, count));
    let of_processes =
        by_process.into_iter().map(|((owner, mode), count)| row(mode, owner.to_string(), count));
    Ok(of_names.chain(of_processes).collect())
}
