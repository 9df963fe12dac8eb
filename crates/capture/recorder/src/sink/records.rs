//! Processes records one after the other: one function for each kind.
//!
//! A buffer of page protection contains nothing else. Translated threads embed records
//! among their blocks; there a record counts no cycle of its thread (`translated`).

use buffers::{Record, Records};
use memref::{
    Access, Allocation, BlockOp, Event, GapReason, Marker, MarkerKind, Order, RegionChange, RegionEvent,
    Sync, VirtAddr,
};
use trace_format::{COUNTER_UNTRACED_PROGRAM, COUNTER_WORK, CounterRecord, Error, ModuleRecord};

use super::build_id::build_id;
use super::causes::OVERWRITTEN;
use super::stepped::SteppedStretch;
use super::thread::TracedThread;
use super::{Sink, SlowSite};
use crate::clock::now_ns;
use crate::command_line;
use crate::listener::{Heard, Hit};

/// The number of the process that was started first.
pub(super) const FIRST_PROCESS: u32 = 0;

impl Sink<'_> {
    /// A buffer of records.
    pub(super) fn records(&mut self, thread: &mut TracedThread, bytes: &[u8]) -> Result<(), Error> {
        let mut accesses = Vec::with_capacity(bytes.len() / 16);
        for record in Records::new(bytes) {
            if let Ok(record) = &record
                && let Some(access) = record.access(thread.cycle)
            {
                accesses.push(access);
                thread.cycle += 1;
                continue;
            }
            if !accesses.is_empty() {
                self.totals.accesses += accesses.len() as u64;
                thread.shard.push_accesses(&accesses)?;
                accesses.clear();
            }
            match record {
                Ok(record) => self.record(thread, &record)?,
                // A program that writes into our buffers destroys what it has recorded, not us.
                Err(_) => self.gap(thread, GapReason::Killed, 1, (VirtAddr(0), OVERWRITTEN))?,
            }
        }
        if !accesses.is_empty() {
            self.totals.accesses += accesses.len() as u64;
            thread.shard.push_accesses(&accesses)?;
        }
        Ok(())
    }

    /// Any record but a single access, which the callers gather.
    pub(super) fn record(&mut self, thread: &mut TracedThread, record: &Record<'_>) -> Result<(), Error> {
        let cycle = thread.cycle;
        match *record {
            Record::Access { .. } | Record::Data { .. } => Ok(()),
            // Only translated threads say it, and look at it themselves.
            Record::ThreadBase { .. } => Ok(()),
            Record::Order { order } => thread.follow(order),
            Record::Block { ip, kind, function, dst, src, len } => {
                let order = thread.order;
                thread.push_counted(&Event::Block(BlockOp {
                    cycle,
                    order,
                    ip,
                    kind,
                    function,
                    dst,
                    src,
                    len,
                }))
            }
            Record::Allocation { order, ip, kind, function, addr, len, old_addr, old_len } => {
                let event = Allocation { cycle, order, ip, kind, function, addr, len, old_addr, old_len };
                self.allocation(thread, event)
            }
            Record::Hit { order, ip, kind, addr, len: _, watch, stops, old, new, stack } => {
                let stack = addresses(stack);
                let hit = Hit { thread: thread.number, cycle, ip, kind, addr, watch, stops, old, new, stack };
                self.hit(thread, order, hit)
            }
            Record::Sync { order, ip, kind, function, object, value } => {
                thread.order = thread.order.max(order);
                thread.push_counted(&Event::Sync(Sync { cycle, order, ip, kind, function, object, value }))
            }
            Record::Marker { order, ip, kind, name } => {
                if let Some(process) = self.processes.get_mut(&thread.process) {
                    process.has_begun |= kind == MarkerKind::Start;
                }
                marker(thread, order, ip, kind, name)
            }
            Record::Gap { reason, count, addr, name } => self.told_gap(thread, reason, count, addr, name),
            Record::Region { order, change, kind, rights, traced, start, len, file_offset, name } => {
                let process = self.process_id(thread.process);
                // A translating tracer sees them all. Who listens wants to know what it sees, and keeps no accesses.
                let traced = traced && (self.listener.is_some() || self.wanted.has(kind));
                let name = text(name);
                let event = RegionEvent {
                    order,
                    process,
                    change,
                    kind,
                    rights,
                    traced,
                    start,
                    len,
                    file_offset,
                    name,
                };
                self.region(thread, event)
            }
            Record::Counter { ip: VirtAddr(0), count, name } => self.work(thread, count, name),
            Record::Counter { ip, count, name } => {
                self.slow_path(thread, ip, count, name);
                Ok(())
            }
            Record::Program { name } => self.program(thread, name),
            Record::Exec { announcement, own_pid, name } => {
                self.exec(thread, announcement, own_pid, name);
                Ok(())
            }
            Record::ExecFailed { announcement } => {
                self.announced.withdraw(announcement);
                Ok(())
            }
            Record::Arguments { addr, name } => self.arguments(thread, addr, name),
            Record::Executed { ip, len } => self.executed(thread, ip, len),
            Record::StepBegin { first } => {
                self.step_begin(thread, first);
                Ok(())
            }
            Record::Expected { ip, addr, kind, size, executed, bytes } => {
                if let Some(stretch) = &mut thread.stretch {
                    stretch.expect(Access { cycle: executed, ip, addr, size: size.into(), kind }, bytes);
                }
                Ok(())
            }
            Record::StepEnd { executed } => {
                self.step_end(thread, executed);
                Ok(())
            }
            Record::Death { ip, addr, signal, code } => self.death(thread, signal.into(), code, (ip, addr)),
            Record::ThreadEnd => self.trace.end_thread(thread.id, now_ns()),
            Record::ProcessEnd { status } => {
                if let Some(process) = self.processes.get_mut(&thread.process) {
                    process.status = status.map(i32::from);
                }
                Ok(())
            }
        }
    }

    fn allocation(&mut self, thread: &mut TracedThread, event: Allocation) -> Result<(), Error> {
        thread.order = thread.order.max(event.order);
        if self.listener.is_none() {
            return thread.push_counted(&Event::Allocation(event));
        }
        thread.cycle += 1;
        self.hear(thread.process, event.order, Heard::Allocation(event));
        Ok(())
    }

    fn hit(&mut self, thread: &mut TracedThread, order: Order, hit: Hit) -> Result<(), Error> {
        thread.cycle += 1;
        self.hear(thread.process, order, Heard::Hit(hit));
        Ok(())
    }

    /// The tracer knows of events that are missing.
    fn told_gap(
        &mut self,
        thread: &mut TracedThread,
        reason: GapReason,
        count: u64,
        addr: VirtAddr,
        name: &[u8],
    ) -> Result<(), Error> {
        if reason == GapReason::UntracedProgram {
            self.untraced.insert(text(name));
            self.trace.add_counter(&CounterRecord {
                process: self.process_id(thread.process),
                thread: Some(thread.id),
                ip: addr,
                code: COUNTER_UNTRACED_PROGRAM,
                count: 1,
                name: text(name),
            })?;
        }
        self.gap(thread, reason, count.max(1), (addr, &text(name)))
    }

    fn region(&mut self, thread: &TracedThread, event: RegionEvent<String>) -> Result<(), Error> {
        self.wanted.change(thread.process, event.change, event.kind, event.start, event.len);
        self.trace.add_region(&event)?;
        self.module(&event)?;
        if self.listener.is_some() {
            self.hear(thread.process, event.order, Heard::Region(event));
        }
        Ok(())
    }

    /// The first mapping of a file that has a build id.
    fn module(&mut self, event: &RegionEvent<String>) -> Result<(), Error> {
        let is_first = event.change == RegionChange::Map && event.file_offset == 0;
        if !is_first || !event.name.starts_with('/') {
            return Ok(());
        }
        let Some(build_id) = build_id(&event.name) else { return Ok(()) };
        self.trace.add_module(&ModuleRecord {
            process: event.process,
            order: event.order,
            base: event.start,
            len: event.len,
            path: event.name.clone(),
            build_id,
        })
    }

    /// A count of the tracer's own work.
    fn work(&mut self, thread: &TracedThread, count: u64, name: &[u8]) -> Result<(), Error> {
        self.trace.add_counter(&CounterRecord {
            process: self.process_id(thread.process),
            thread: None,
            ip: VirtAddr(0),
            code: COUNTER_WORK,
            count,
            name: text(name),
        })
    }

    /// An instruction took the slow path: counted here, written at the end.
    fn slow_path(&mut self, thread: &TracedThread, ip: VirtAddr, count: u64, name: &[u8]) {
        self.totals.slow += count;
        let slow = self.slow.entry(SlowSite { process: thread.process, ip }).or_default();
        slow.count += count;
        if slow.name.is_empty() {
            slow.name = text(name);
        }
    }

    /// The process begins to run that program.
    fn program(&mut self, thread: &TracedThread, name: &[u8]) -> Result<(), Error> {
        self.hear(thread.process, thread.order, Heard::Begins);
        let Some(process) = self.processes.get_mut(&thread.process) else { return Ok(()) };
        process.record.exe = text(name);
        self.trace.update_process(&process.record)
    }

    /// A part of the process's command line.
    fn arguments(&mut self, thread: &TracedThread, addr: VirtAddr, part: &[u8]) -> Result<(), Error> {
        let Some(process) = self.processes.get_mut(&thread.process) else { return Ok(()) };
        process.arguments.extend_from_slice(part);
        process.record.args = command_line::of_arguments(&process.arguments);
        self.trace.update_process(&process.record)?;
        if thread.process == FIRST_PROCESS {
            let end = addr.0.saturating_add(part.len() as u64);
            let start = end.saturating_sub(process.arguments.len() as u64);
            self.trace.set_property("argv", &format!("{start:#x} {end:#x}"))?;
        }
        Ok(())
    }

    /// The tracer executed an instruction itself: a block of its own, where control flow is kept.
    fn executed(&mut self, thread: &mut TracedThread, ip: VirtAddr, len: u8) -> Result<(), Error> {
        let (Some(list), Some(flow)) = (&mut self.list, &mut thread.flow) else { return Ok(()) };
        let block = list.instruction(thread.process, ip, len)?;
        flow.enter(thread.cycle, block)
    }

    fn step_begin(&mut self, thread: &mut TracedThread, is_window: bool) {
        thread.stretch = Some(SteppedStretch::new(thread.cycle));
        self.verified.windows += u64::from(is_window);
    }

    fn step_end(&mut self, thread: &mut TracedThread, executed: Option<u64>) {
        if let (Some(stretch), Some(executed)) = (thread.stretch.take(), executed) {
            stretch.compare(thread.cycle, executed, &mut self.verified);
        }
    }
}

fn marker(
    thread: &mut TracedThread,
    order: Order,
    ip: VirtAddr,
    kind: MarkerKind,
    name: &[u8],
) -> Result<(), Error> {
    let name = String::from_utf8_lossy(name);
    let marker = Marker { cycle: thread.cycle, order, ip, kind, name: &*name };
    thread.push_counted(&Event::Marker(marker))
}

/// A name as a tracer tells it.
fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// A stack's frames.
fn addresses(bytes: &[u8]) -> Vec<VirtAddr> {
    let words = bytes.as_chunks().0.iter();
    words.map(|word| VirtAddr(u64::from_le_bytes(*word))).collect()
}
