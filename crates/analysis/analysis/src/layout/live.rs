//! The fields of heap blocks while a program runs: no trace tells what all accesses say, so those that were seen so far vote.

use std::collections::HashMap;

use memref::{ProcessId, VirtAddr};
use symbols::{Resolver, SiteId};

use super::fields::{FieldUse, by_byte, fields_of};
use super::votes::{BlockTypes, Candidates, PlacedType, VoteSum};

/// Types that are larger have no fields.
const MOST_BYTES: u64 = 1 << 16;

/// A call that allocated blocks of one size.
type SizedSite = (ProcessId, SiteId, u64);

/// Names fields by what the accesses so far say of their blocks, and of others of the same call and size.
#[derive(Debug, Default)]
pub struct LiveFields {
    votes: BlockTypes,
    of_site: HashMap<SizedSite, Candidates>,
    tables: HashMap<u32, FieldTable>,
}

#[derive(Debug)]
struct FieldTable {
    fields: Vec<FieldUse>,
    owners: Vec<u16>,
}

impl LiveFields {
    /// The name of a heap block's address with its field, `<malloc0003@make+12>.hits`, of one of several objects `[3].hits`, as the
    /// instruction accessed it. Nothing where no type is known.
    pub fn name(&mut self, resolver: &mut Resolver, ip: VirtAddr, addr: VirtAddr) -> Option<String> {
        let number = self.votes.block_at(resolver, addr)?;
        let block = &self.votes.blocks[number as usize];
        let (start, len, site) = (block.start, block.len, (block.process, block.site, block.len));
        if let Some(known) = self.votes.types.at(resolver, ip)
            && let Some(placed) = self.votes.vote(number, addr, known)
        {
            let offset = known.offset.rem_euclid(self.votes.types.layout(known.type_).bytes as i64);
            self.of_site.entry(site).or_default().entry(placed).or_default().add(VoteSum::one(offset as u32));
        }
        let own = self.votes.winner(&self.votes.candidates(number), len);
        let is_whole = |placed: &PlacedType| self.votes.types.is_aggregate(placed.type_);
        let placed = own.map(|own| own.placed).filter(is_whole).or_else(|| {
            let site = self.votes.winner(self.of_site.get(&site)?, len)?.placed;
            is_whole(&site).then_some(site)
        })?;
        let layout = self.votes.types.layout(placed.type_);
        let bytes = layout.bytes;
        if bytes > MOST_BYTES {
            return None;
        }
        let table = self.tables.entry(placed.type_).or_insert_with(|| {
            let fields = fields_of(layout);
            FieldTable { owners: by_byte(&fields, bytes), fields }
        });
        let into = addr.distance(start).checked_sub(placed.base.into())?;
        let owner = *table.owners.get((into % bytes) as usize)?;
        let field = &table.fields.get(usize::from(owner))?.name;
        let variable = resolver.resolve_data(addr).variable;
        let block = &resolver.names().variable(variable)?.name;
        Some(match len < 2 * bytes {
            true => format!("{block}.{field}"),
            false => format!("{block}[{}].{field}", into / bytes),
        })
    }
}
