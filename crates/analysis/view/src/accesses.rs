//! Single accesses: the next and the previous access to a range of bytes, and the last write to them.
//!
//! The page index tells which frames may contain one. These are decoded, nearest first, until the access is found.

use std::ops::Range;
use std::sync::Arc;

use analysis::{Error, Moment, ReadProgress, Tool};
use memref::{Access, AccessKind, ThreadId, VirtAddr};
use serde_json::{Value, json};
use symbols::{CodeName, Resolver};
use trace_format::Filter;

use crate::error::Refusal;
use crate::frames::{MapFrame, kind_number};
use crate::map::TraceMap;
use crate::part::MapPart;
use crate::pending_requests::PendingRequests;
use crate::tile::CountedKinds;

/// An access that begins before some bytes may reach into them: the largest one does.
const LONGEST: u64 = 64;

/// Single accesses that are sent at most.
const MOST_SINGLE: usize = 4_000;

/// The accesses of a part, where these are few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SinglesRequest {
    pub(crate) part: MapPart,
    /// Only those of these kinds.
    pub(crate) what: CountedKinds,
}

/// Before or after a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Next,
    Previous,
}

/// What is looked for: the nearest access in a part's time that touches its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessRequest {
    pub(crate) part: MapPart,
    /// Only those of these kinds.
    pub(crate) what: CountedKinds,
    /// Only those that begin at these addresses, which is where a tile counts them.
    pub(crate) begins: bool,
    pub(crate) way: Way,
    /// From there on, or up to there, on the axis of the part.
    pub(crate) at: u64,
    /// The access that was found last, which is left out: its thread, and its number in that.
    pub(crate) entry: Option<(ThreadId, u64)>,
    /// Who asks: another question of the same one makes this one needless.
    pub(crate) asker: Option<u64>,
}

/// Where an access is in the order of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AccessPlace {
    /// On the axis of time.
    at: u64,
    thread: ThreadId,
    entry: u64,
}

impl AccessPlace {
    /// Before all accesses of a moment.
    const fn before(at: u64) -> Self {
        Self { at, thread: ThreadId(0), entry: 0 }
    }

    /// After all accesses of a moment.
    const fn after(at: u64) -> Self {
        Self { at, thread: ThreadId(u32::MAX), entry: u64::MAX }
    }
}

/// An access that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FoundAccess {
    /// On the axis of time.
    at: u64,
    thread: ThreadId,
    entry: u64,
    access: Access,
}

impl FoundAccess {
    fn place(&self) -> AccessPlace {
        AccessPlace { at: self.at, thread: self.thread, entry: self.entry }
    }
}

/// What is looked for, where, and on which side of what.
struct Wanted<'a> {
    part: &'a MapPart,
    thread: Option<ThreadId>,
    way: Way,
    /// Exclusive; `None`: there is no access before.
    limit: Option<AccessPlace>,
    what: CountedKinds,
    begins: bool,
    request: &'a ReadProgress,
}

impl Wanted<'_> {
    fn admits(&self, found: &FoundAccess) -> bool {
        let Some(kind) = kind_number(&found.access) else { return false };
        let (start, addresses) = (found.access.addr.0, &self.part.addresses);
        let touches = start < addresses.end
            && start.saturating_add(u64::from(found.access.size)) > addresses.start
            && (!self.begins || addresses.contains(&start));
        let after = match self.way {
            Way::Next => self.limit.is_none_or(|limit| found.place() > limit),
            Way::Previous => self.limit.is_some_and(|limit| found.place() < limit),
        };
        touches && after && self.part.span.contains(&found.at) && self.what.has(kind)
    }

    /// Whether the first is nearer to the limit.
    fn is_nearer(&self, a: AccessPlace, b: AccessPlace) -> bool {
        match self.way {
            Way::Next => a < b,
            Way::Previous => a > b,
        }
    }

    /// Whether a frame can have one that is nearer than the best so far.
    fn may_have(&self, span: &Range<u64>, best: Option<&FoundAccess>) -> bool {
        let (first, last) = (AccessPlace::before(span.start), AccessPlace::after(span.end));
        match self.way {
            Way::Next => {
                self.limit.is_none_or(|limit| last > limit) && best.is_none_or(|best| first <= best.place())
            }
            Way::Previous => {
                self.limit.is_some_and(|limit| first < limit) && best.is_none_or(|best| last >= best.place())
            }
        }
    }
}

/// The numbers of pages that an access to these bytes can begin in.
fn pages(addresses: &Range<u64>, shift: u8) -> Range<u64> {
    addresses.start.saturating_sub(LONGEST) >> shift..((addresses.end - 1) >> shift) + 1
}

impl TraceMap {
    /// The access, what it is called, and who wrote its bytes before.
    pub(crate) fn access(
        &self,
        request: &AccessRequest,
        pending: &PendingRequests,
    ) -> Result<Value, Refusal> {
        let waiting = pending.begin(request.asker);
        let answer = self.access_and_writer(request, &waiting);
        pending.end(request.asker, &waiting);
        match answer {
            Err(_) if waiting.is_cancelled() => {
                Err(Refusal::new(409, "another access was asked for meanwhile"))
            }
            answer => answer.map_err(Refusal::from),
        }
    }

    fn access_and_writer(
        &self,
        request: &AccessRequest,
        waiting: &Arc<ReadProgress>,
    ) -> Result<Value, Error> {
        let AccessRequest { part, what, begins, way, at, entry, .. } = request;
        let limit = match (entry, way) {
            (Some((thread, entry)), _) => Some(AccessPlace { at: *at, thread: *thread, entry: *entry }),
            (None, Way::Next) => at.checked_sub(1).map(AccessPlace::after),
            (None, Way::Previous) => Some(AccessPlace::after(*at)),
        };
        let (what, begins) = (*what, *begins);
        let wanted = Wanted { part, thread: part.thread, way: *way, limit, what, begins, request: waiting };
        let Some(found) = self.nearest(&wanted)? else { return Ok(json!({"found": null, "writer": null})) };
        let start = found.access.addr.0;
        let addresses = start..start.saturating_add(u64::from(found.access.size));
        let bytes = MapPart { addresses, span: 0..u64::MAX, ..part.clone() };
        // The clocks of different threads say nothing about what came first, and times of day little.
        let writer = Wanted {
            part: &bytes,
            thread: Some(found.thread),
            way: Way::Previous,
            limit: Some(found.place()),
            what: CountedKinds::Stores,
            begins: false,
            request: waiting,
        };
        let writer = self.nearest(&writer)?;
        let named = |found: &FoundAccess| self.named_access(found);
        Ok(json!({"found": named(&found)?, "writer": writer.as_ref().map(named).transpose()?}))
    }

    /// Each access that begins in a part: where it is on the axis, its address, size, number of its kind and thread. Of too many there are none.
    pub(crate) fn singles(&self, request: &SinglesRequest) -> Result<Value, Error> {
        let SinglesRequest { part, what } = request;
        let mut singles = Vec::new();
        for frame in self.frames_of(part, part.thread) {
            let mut moments = self.moments(part.axis, frame.thread);
            let mut cursor = frame.accesses(&self.session)?;
            while let Some((_, accesses)) = cursor.next_block()? {
                for access in accesses {
                    let at = moments.when(access.cycle);
                    let is_there = part.span.contains(&at) && part.addresses.contains(&access.addr.0);
                    let Some(kind) = kind_number(access).filter(|kind| is_there && what.has(*kind)) else {
                        continue;
                    };
                    if singles.len() == MOST_SINGLE {
                        return Ok(json!({"accesses": [], "too_many": true}));
                    }
                    let addr = format!("{:#x}", access.addr.0);
                    singles.push(json!([at, addr, access.size, kind, frame.thread.0]));
                }
            }
        }
        Ok(json!({"accesses": singles, "too_many": false}))
    }

    /// The frames that can have accesses to a part.
    fn frames_of(&self, part: &MapPart, thread: Option<ThreadId>) -> impl Iterator<Item = &MapFrame> {
        let MapPart { process, axis, span, addresses, .. } = part.clone();
        self.frames.frames.iter().filter(move |frame| {
            let pages = pages(&addresses, frame.shift);
            let first = frame.cells.partition_point(|cell| cell.page < pages.start);
            let there = self.stretch(axis, frame.thread, &frame.cycles);
            frame.process == process
                && there.start < span.end
                && there.end >= span.start
                && thread.is_none_or(|thread| thread == frame.thread)
                && frame.cells.get(first).is_some_and(|cell| cell.page < pages.end)
        })
    }

    fn nearest(&self, wanted: &Wanted<'_>) -> Result<Option<FoundAccess>, Error> {
        let placed = |frame: &'_ MapFrame| self.stretch(wanted.part.axis, frame.thread, &frame.cycles);
        let mut frames: Vec<(Range<u64>, &MapFrame)> =
            self.frames_of(wanted.part, wanted.thread).map(|frame| (placed(frame), frame)).collect();
        match wanted.way {
            Way::Next => frames.sort_by_key(|(span, _)| span.start),
            Way::Previous => frames.sort_by_key(|(span, _)| std::cmp::Reverse(span.end)),
        }
        let mut best: Option<FoundAccess> = None;
        for (span, frame) in frames {
            if wanted.may_have(&span, best.as_ref())
                && let Some(found) = self.nearest_in(wanted, frame)?
                && best.is_none_or(|best| wanted.is_nearer(found.place(), best.place()))
            {
                best = Some(found);
            }
        }
        Ok(best)
    }

    fn nearest_in(&self, wanted: &Wanted<'_>, frame: &MapFrame) -> Result<Option<FoundAccess>, Error> {
        let mut moments = self.moments(wanted.part.axis, frame.thread);
        let mut cursor = frame.accesses(&self.session)?;
        let mut last = None;
        while let Some((first, accesses)) = cursor.next_block()? {
            if wanted.request.is_cancelled() {
                return Err(Error::Cancelled);
            }
            for (entry, &access) in (first..).zip(accesses) {
                let at = moments.when(access.cycle);
                let found = FoundAccess { at, thread: frame.thread, entry, access };
                if wanted.admits(&found) {
                    if wanted.way == Way::Next {
                        return Ok(Some(found));
                    }
                    last = Some(found);
                }
            }
        }
        Ok(last)
    }

    /// An access as JSON, with names as they were then.
    fn named_access(&self, found: &FoundAccess) -> Result<Value, Error> {
        let names = if self.is_machine {
            let [function, variable] = self.machine_names(&found.access, found.thread)?;
            AccessNames { variable, function, ..AccessNames::default() }
        } else {
            let mut namer = AccessNamer { access: found.access, names: None };
            let filter = Filter { index: Some(found.entry..found.entry + 1), ..Filter::default() };
            self.session.replay(&filter, Some(found.thread), &mut namer)?;
            namer.names.unwrap_or_default()
        };
        let kind = match found.access.kind {
            AccessKind::Load => "load",
            AccessKind::Store => "store",
            AccessKind::Modify => "modify",
            AccessKind::Prefetch => "prefetch",
        };
        Ok(json!({
            "at": found.at,
            "cycle": found.access.cycle,
            "thread": found.thread.0,
            "entry": found.entry,
            "addr": format!("{:#x}", found.access.addr.0),
            "bytes": found.access.size,
            "kind": kind,
            "variable": names.variable,
            "allocated": names.allocated,
            "function": names.function,
            "line": names.line,
        }))
    }
}

#[derive(Debug, Default)]
struct AccessNames {
    variable: String,
    /// The line of the call that allocated it, where it is a heap block.
    allocated: Option<String>,
    function: String,
    line: Option<String>,
}

/// The source line of an instruction, without the folders of its file.
fn short_line(code: &CodeName) -> Option<String> {
    let (file, line) = code.line()?;
    let file = file.rsplit('/').next().unwrap_or(file);
    Some(line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
}

/// The line that allocated the block at an address.
fn allocated_at(resolver: &Resolver, addr: VirtAddr) -> Option<String> {
    let heap = resolver.heap();
    let block = heap.block(heap.get(addr)?.block)?;
    short_line(&*resolver.names().code(resolver.site_code(block.site)?)?)
}

/// Looks up what one access was called.
struct AccessNamer {
    access: Access,
    names: Option<AccessNames>,
}

impl Tool for AccessNamer {
    fn accesses(&mut self, at: &mut Moment<'_>, accesses: &[Access]) -> Result<(), Error> {
        let Some(access) = accesses.iter().find(|access| **access == self.access) else { return Ok(()) };
        let code = at.resolver.code_name(access.ip);
        let line = code.as_ref().and_then(|code| short_line(code));
        self.names = Some(AccessNames {
            variable: at.resolver.data_text(access.addr, access.size),
            allocated: allocated_at(at.resolver, access.addr),
            function: code.map(|code| code.to_string()).unwrap_or_default(),
            line,
        });
        Ok(())
    }
}
