//! Who accesses what in a part of a machine's physical memory.

use analysis::machine::{MemoryPart, PartBy, of_part};
use analysis::{CountedRows, Error, ReadProgress};
use memref::{Access, ThreadId};

use crate::error::Refusal;
use crate::map::TraceMap;
use crate::part::MapPart;
use crate::pending_requests::PendingRequests;
use crate::table::{superseded, table_json};

/// What a machine's table is asked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineTable {
    pub(crate) part: MapPart,
    pub(crate) by: PartBy,
    pub(crate) name: &'static str,
    /// Who asks: another question of the same one makes this one needless.
    pub(crate) asker: Option<u64>,
}

impl TraceMap {
    /// Counts a machine's table.
    pub(crate) fn machine_table(
        &self,
        request: &MachineTable,
        pending: &PendingRequests,
    ) -> Result<String, Refusal> {
        let MachineTable { part, by, name, asker } = request;
        let waiting = pending.begin(*asker);
        let part =
            MemoryPart { cycles: part.span.clone(), addresses: part.addresses.clone(), cpu: part.thread };
        let rows = of_part(self.session.trace(), &part, *by, &waiting);
        pending.end(*asker, &waiting);
        let rows = superseded(rows.map_err(Refusal::from), &waiting)?;
        Ok(table_json(name, CountedRows::apart(rows), None))
    }

    /// The names of the function that made an access, and of the variable.
    pub(crate) fn machine_names(&self, access: &Access, thread: ThreadId) -> Result<[String; 2], Error> {
        let addr = access.addr.0;
        let part = MemoryPart {
            cycles: access.cycle..access.cycle.saturating_add(1),
            addresses: addr..addr.saturating_add(1),
            cpu: Some(thread),
        };
        let nobody = ReadProgress::default();
        let name = |by| {
            let rows = of_part(self.session.trace(), &part, by, &nobody)?;
            Ok::<_, Error>(rows.into_iter().next().map(|row| row.name).unwrap_or_default())
        };
        Ok([name(PartBy::Function)?, name(PartBy::Variable)?])
    }
}
