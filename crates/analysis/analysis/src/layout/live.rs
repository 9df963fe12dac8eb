//! The fields of heap blocks while a program runs. There is no trace with all votes yet, so the accesses seen so far vote.

use std::collections::HashMap;
use std::sync::Arc;

use memref::{ProcessId, VirtAddr};
use symbols::{Resolver, SiteId};

use super::fields::{FieldUse, by_byte, fields_of};
use super::pools::{ToldObject, path_in_pool, told_by};
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
        let known = self.votes.types.at(resolver, ip);
        if let Some(known) = known
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
        });
        let from_block = addr.distance(start);
        let told = known.and_then(|known| told_by(&self.votes.types, known, from_block));
        // An object beside those that the block is taken for: several types share it.
        let beside = told.filter(|told| placed.is_none_or(|whole| !self.votes.is_of(*told, &whole)));
        let path = match (beside, placed) {
            (Some(ToldObject { begin, type_ }), _) => {
                let name = Arc::clone(&self.votes.types.layout(type_).name);
                let field = self.field(type_, from_block.checked_sub(begin)?)?;
                path_in_pool(&name, begin, field)
            }
            (None, placed) => {
                let placed = placed?;
                let bytes = self.votes.types.layout(placed.type_).bytes;
                let into = from_block.checked_sub(placed.base.into())?;
                let field = self.field(placed.type_, into % bytes)?;
                match len < 2 * bytes {
                    true => format!(".{field}"),
                    false => format!("[{}].{field}", into / bytes),
                }
            }
        };
        let variable = resolver.resolve_data(addr).variable;
        Some(format!("{}{path}", resolver.names().variable(variable)?.name))
    }

    /// The field of a type at an offset.
    fn field(&mut self, type_: u32, offset: u64) -> Option<&str> {
        let layout = self.votes.types.layout(type_);
        if layout.bytes > MOST_BYTES {
            return None;
        }
        let table = self.tables.entry(type_).or_insert_with(|| {
            let fields = fields_of(layout);
            FieldTable { owners: by_byte(&fields, layout.bytes), fields }
        });
        let owner = *table.owners.get(offset as usize)?;
        Some(&table.fields.get(usize::from(owner))?.name)
    }
}
