//! What is recorded while the machine runs: QEMU's callbacks.
//!
//! All callbacks of vCPUs come from one thread (the recorder makes sure that a machine with several vCPUs runs with `thread=single`),
//! so they need no lock among themselves. Two others touch the state, while no vCPU executes: the thread that compares memory when
//! the machine has been idle for a while, and the end of QEMU. A lock keeps these, going idle and resuming apart.

mod blocks;

use core::cell::UnsafeCell;
use core::ffi::{c_uint, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use buffers::{
    BUFFER_BYTES, MAX_FOUND_BYTES, MAX_MACHINE_WORDS, MachineRecord, MachineWriter, PAGE_SLOTS, Pool,
    access_word, encode_machine, enter_words, page_slot, page_word,
};

use memref::VirtAddr;

use self::blocks::{ToldBlocks, TranslatedBlock};
use crate::api::{Api, MemInfo, PluginId, Tb};
use crate::channel;
use crate::options::{NumberRange, PluginOptions};
use crate::ram::Ram;
use crate::task::Tasks;

const PAGE_SHIFT: u32 = VirtAddr::PAGE_SHIFT;
const PAGE_MASK: u64 = VirtAddr::PAGE_BYTES - 1;
/// Descriptions of accesses that are remembered.
const FORMS: usize = 256;
/// How often memory is compared while the machine runs.
const COMPARE_EVERY: Duration = Duration::from_secs(1);
/// How long a machine is idle before memory is compared; devices may go on writing, so it is compared again every
/// [`COMPARE_EVERY`].
const IDLE: Duration = Duration::from_millis(5);
/// Cycles between looks at the wall clock, where it matters.
const LOOK_CYCLES: u64 = 1 << 16;
/// No block was entered yet, or none is to be counted.
const NO_ACCESS: u32 = u32::MAX;

/// Marks: recording switched on and off by our own conditions.
const MARK_ON: u32 = 0;
const MARK_OFF: u32 = 1;

/// Numbers of [`MachineRecord::Text`].
pub(crate) const TEXT_API: u32 = 0;
pub(crate) const TEXT_INTROSPECTION: u32 = 1;
pub(crate) const TEXT_MEMORY: u32 = 2;
pub(crate) const TEXT_SYMBOL: u32 = 3;

/// Where a page lies, as it was told last.
#[derive(Clone, Copy)]
struct ToldPage {
    /// The number of the virtual page; all ones: none.
    virt: u64,
    /// The number of the physical page.
    phys: u64,
    /// Whether a device answers there.
    device: bool,
}

/// What an access's description says.
#[derive(Clone, Copy)]
struct AccessForm {
    info: MemInfo,
    size_shift: u8,
    store: bool,
}

/// Everything.
pub(crate) struct Machine {
    api: Api,
    options: PluginOptions,
    pool: Pool,
    writer: MachineWriter,
    /// Whether accesses are recorded now.
    on: bool,
    /// Whether accesses must be looked at, recorded or not.
    watching: bool,
    /// Whether the block that is executed was recorded.
    entered: bool,
    /// Whether it is a program's, not the kernel's.
    in_program: bool,
    /// The vCPU that executes.
    cpu: u32,
    /// The vCPU that records are about.
    told_cpu: u32,
    /// Instructions executed when the present block was entered.
    cycle: u64,
    block: *const TranslatedBlock,
    /// The instruction of the present block that made an access last.
    last_access: u32,
    /// Its last instruction.
    last_index: u32,
    /// Blocks whose last instruction this vCPU had reached when the present block was entered.
    tail: u64,
    /// The pages that were told, by [`page_slot`].
    pages: Box<[ToldPage]>,
    forms: Box<[AccessForm]>,
    blocks: ToldBlocks,
    ram: Option<Ram>,
    /// From this physical address on, main memory is told by its place in QEMU's; all ones: nowhere.
    offsets_from: u64,
    /// Whether all of memory can be known: written data is recorded, of all of it.
    complete: bool,
    /// When all of memory was known.
    synced: u64,
    started: Instant,
    tasks: Tasks,
    /// What was told of the search for the guest's kernel.
    said: String,
    /// Whether the guest's own marks ask for recording.
    marked: bool,
    seen_kernel: bool,
    first: bool,
    parent: Option<rustix::process::Pid>,
    thread: Option<std::thread::ThreadId>,
}

struct MachineCell(UnsafeCell<Option<Machine>>);

// SAFETY: who may touch it is described at the head of this file.
unsafe impl Sync for MachineCell {}
// SAFETY: its pointers are to blocks, which live as long as QEMU; who may touch it is described at the head of this file.
unsafe impl Send for Machine {}

static MACHINE: MachineCell = MachineCell(UnsafeCell::new(None));
/// The cycle at which the vCPU thread looks at conditions next; 0 asks it to look at once. Written by all.
static LOOK_AT: AtomicU64 = AtomicU64::new(0);
/// Whether somebody asks for a comparison. Written by the idle thread, cleared by the vCPU thread.
static COMPARE: AtomicBool = AtomicBool::new(false);
static IDLE_STATE: OnceLock<Mutex<Idle>> = OnceLock::new();

/// Whether the machine executes, as far as we are told.
struct Idle {
    since: Option<Instant>,
    /// When memory was compared since then.
    compared: Option<Instant>,
}

fn idle() -> MutexGuard<'static, Idle> {
    let state = IDLE_STATE.get_or_init(|| Mutex::new(Idle { since: None, compared: None }));
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// # Safety
/// Only from the vCPU thread, or while it is idle and the lock is held, and never twice at a time.
unsafe fn machine() -> Option<&'static mut Machine> {
    // SAFETY: the caller's promise.
    unsafe { (*MACHINE.0.get()).as_mut() }
}

/// Starts: registers callbacks.
pub(crate) fn start(id: PluginId, api: Api, version: i32, options: PluginOptions, pool: Pool) {
    let complete = options.data && options.stores && options.virt.is_none();
    let form = AccessForm { info: MemInfo::MAX, size_shift: 0, store: false };
    let parent = rustix::process::getppid();
    let mut new = Machine {
        api,
        pool,
        writer: MachineWriter::new(),
        on: false,
        watching: false,
        entered: false,
        in_program: false,
        cpu: 0,
        told_cpu: u32::MAX,
        cycle: 0,
        block: core::ptr::null(),
        last_access: NO_ACCESS,
        last_index: 0,
        tail: 0,
        pages: vec![ToldPage { virt: u64::MAX, phys: 0, device: false }; PAGE_SLOTS].into_boxed_slice(),
        forms: vec![form; FORMS].into_boxed_slice(),
        blocks: ToldBlocks::default(),
        ram: None,
        offsets_from: match options.ram {
            ram if options.offsets && ram.bytes() > ram.low_bytes() => ram.low_bytes(),
            _ => u64::MAX,
        },
        complete,
        synced: 0,
        started: Instant::now(),
        tasks: Tasks::default(),
        said: String::new(),
        marked: false,
        seen_kernel: false,
        first: true,
        parent,
        thread: None,
        options,
    };
    new.text(TEXT_API, &version.to_string());
    // SAFETY: QEMU loads plugins before it starts vCPUs: nobody else looks yet.
    unsafe { *MACHINE.0.get() = Some(new) };
    // SAFETY: registering callbacks is what a plugin does here; they have the types that QEMU calls.
    unsafe {
        (api.register_vcpu_tb_trans_cb)(id, translated);
        (api.register_vcpu_idle_cb)(id, went_idle);
        (api.register_vcpu_resume_cb)(id, went_on);
        (api.register_atexit_cb)(id, ended, core::ptr::null_mut());
    }
    std::thread::spawn(watch_idle);
}

/// Compares memory when the machine has been idle for a while, and asks for it now and then while it runs.
fn watch_idle() {
    let mut last = Instant::now();
    loop {
        std::thread::sleep(IDLE);
        let mut idle = idle();
        match idle.since {
            Some(since)
                if since.elapsed() >= IDLE
                    && idle.compared.is_none_or(|last| last.elapsed() >= COMPARE_EVERY) =>
            {
                let began = Instant::now();
                // SAFETY: the vCPU is idle, and can't go on while we have the lock.
                if let Some(machine) = unsafe { machine() } {
                    machine.sync();
                    machine.submit();
                }
                idle.compared = Some(Instant::now());
                // No more than a tenth of the time goes into this.
                let took = began.elapsed();
                drop(idle);
                last = Instant::now();
                std::thread::sleep(took * 9);
            }
            None if last.elapsed() >= COMPARE_EVERY => {
                last = Instant::now();
                COMPARE.store(true, Ordering::Relaxed);
                LOOK_AT.store(0, Ordering::Release);
            }
            _ => {}
        }
    }
}

unsafe extern "C" fn went_idle(_: PluginId, _: c_uint) {
    let mut idle = idle();
    // SAFETY: the vCPU thread, before it sleeps; the lock keeps the idle thread away.
    if let Some(machine) = unsafe { machine() } {
        machine.leave_block();
        machine.tell_clock();
        machine.submit();
    }
    *idle = Idle { since: Some(Instant::now()), compared: None };
}

unsafe extern "C" fn went_on(_: PluginId, _: c_uint) {
    idle().since = None;
}

unsafe extern "C" fn ended(_: PluginId, _: *mut c_void) {
    let mut idle = idle();
    // SAFETY: what another thread may be doing to it now is not touched.
    let Some(machine) = (unsafe { machine() }) else { return };
    let ours = machine.thread == Some(std::thread::current().id());
    if idle.since.is_none() && !ours && machine.thread.is_some() {
        // QEMU ends while a vCPU executes. What it published is in its buffer, and the recorder takes that.
        return;
    }
    if ours {
        machine.leave_block();
    }
    machine.sync();
    machine.tell_clock();
    machine.submit();
    idle.compared = Some(Instant::now());
}

/// A block is translated.
unsafe extern "C" fn translated(_: PluginId, tb: Tb) {
    // SAFETY: the vCPU thread.
    let Some(machine) = (unsafe { machine() }) else { return };
    // SAFETY: QEMU's block, during the callback.
    unsafe { machine.translate(tb) };
}

/// A block is entered.
unsafe extern "C" fn entered(cpu: c_uint, block: *mut c_void) {
    // SAFETY: the vCPU thread.
    let Some(machine) = (unsafe { machine() }) else { return };
    machine.enter(cpu, block.cast_const().cast());
}

/// An instruction made an access.
unsafe extern "C" fn accessed(_: c_uint, info: MemInfo, addr: u64, index: *mut c_void) {
    // SAFETY: the vCPU thread.
    let Some(machine) = (unsafe { machine() }) else { return };
    // Between blocks, where a machine that stopped goes on with an interrupt, the processor pushes its frame by itself. No
    // instruction does, and the last one may be long ago: comparing memory finds such bytes.
    if machine.block.is_null() {
        return;
    }
    // While a block runs, such a frame comes with the instruction of an earlier one. No program can reach the upper half,
    // where the kernel has its stacks and the processor its tables.
    if machine.in_program && addr >> 63 != 0 {
        return;
    }
    let least = if machine.last_access == NO_ACCESS { 0 } else { machine.last_access };
    let index = (index as usize as u32).max(least).min(machine.last_index);
    machine.last_access = index;
    if machine.watching {
        machine.access(info, addr, index as u16);
    }
}

/// A marker instruction is executed.
unsafe extern "C" fn marked(_: c_uint, mark: *mut c_void) {
    // SAFETY: the vCPU thread.
    let Some(machine) = (unsafe { machine() }) else { return };
    machine.mark(mark as usize as u32);
}

impl Machine {
    /// Counts the instructions of the block that was entered last.
    #[inline]
    fn leave_block(&mut self) {
        if self.block.is_null() {
            return;
        }
        // SAFETY: blocks live as long as QEMU.
        let block = unsafe { &*self.block };
        self.block = core::ptr::null();
        if block.instructions > 1 {
            // SAFETY: this vCPU executed.
            if self.tail == unsafe { (self.api.tail)(self.cpu) } {
                // Its last instruction was not reached: one after the last access stopped it.
                let executed = if self.last_access == NO_ACCESS { 0 } else { self.last_access + 1 };
                self.cycle += u64::from(executed.min(block.instructions));
                return;
            }
        }
        self.cycle += u64::from(block.instructions);
    }

    #[inline]
    fn enter(&mut self, cpu: u32, block: *const TranslatedBlock) {
        self.leave_block();
        let block = self.where_executed(block);
        if cpu != self.cpu {
            self.cpu = cpu;
            self.tasks.go_to(cpu);
            if self.options.process.is_some() {
                self.decide();
            }
        }
        if self.cycle >= LOOK_AT.load(Ordering::Acquire) {
            self.look();
        }
        self.block = block;
        // SAFETY: this vCPU executes.
        self.tail = unsafe { (self.api.tail)(cpu) };
        self.last_access = NO_ACCESS;
        self.entered = false;
        // SAFETY: blocks live as long as QEMU.
        let (ip, hook) = unsafe {
            self.last_index = (*block).instructions.saturating_sub(1);
            ((*block).ip, (*block).hook.load(Ordering::Relaxed))
        };
        self.in_program = ip >> 63 == 0 && self.seen_kernel;
        if !self.tasks.is_ready() {
            self.look_for_kernel(ip);
        } else if hook != 0
            && let Some(ram) = &self.ram
        {
            let events = self.tasks.reached(hook, ram);
            self.tell_tasks(events);
            self.tell_symbols();
        } else if self.tasks.is_renaming()
            && ip >> 63 == 0
            && let Some(ram) = &self.ram
        {
            let events = self.tasks.renamed(ram);
            self.tell_tasks(events);
        }
        if self.on && self.options.flow {
            self.tell_entry();
        }
    }

    /// Finds the kernel's symbols when the first program of the guest runs.
    fn look_for_kernel(&mut self, ip: u64) {
        if ip >> 63 != 0 {
            self.seen_kernel = true;
            return;
        }
        if !self.seen_kernel || !self.tasks.may_try(self.cycle) {
            return;
        }
        let Some(ram) = &self.ram else { return };
        let said = self.tasks.find_kernel(ram, self.cycle, self.cpu);
        if said != self.said {
            self.text(TEXT_INTROSPECTION, &said);
            self.said = said;
        }
        if self.tasks.is_ready() {
            self.tasks.go_to(self.cpu);
            for block in self.blocks.all() {
                // SAFETY: blocks live as long as QEMU.
                let block = unsafe { &**block };
                block.hook.store(self.tasks.hook(block.ip), Ordering::Relaxed);
            }
            self.tell_symbols();
            if let Some(ram) = &self.ram {
                let events = self.tasks.first(self.cpu, ram);
                self.tell_tasks(events);
            }
            self.decide();
        }
    }

    fn tell_symbols(&mut self) {
        for (name, address) in self.tasks.take_symbols() {
            let mut text = address.to_le_bytes().to_vec();
            text.extend_from_slice(name.as_bytes());
            self.record(&MachineRecord::Text { what: TEXT_SYMBOL, text: &text });
        }
    }

    fn tell_tasks(&mut self, events: Vec<(buffers::TaskChange, buffers::Task)>) {
        if events.is_empty() {
            return;
        }
        let cycle = self.cycle;
        self.tell_cpu();
        for (change, task) in events {
            self.record(&MachineRecord::Task { cycle, change, task });
        }
        if self.options.process.is_some() {
            self.decide();
        }
    }

    fn tell_cpu(&mut self) {
        if self.told_cpu != self.cpu {
            self.told_cpu = self.cpu;
            self.record(&MachineRecord::Cpu(self.cpu));
        }
    }

    /// Records that the present block was entered, before the first access in it.
    fn tell_entry(&mut self) {
        self.tell_cpu();
        self.entered = true;
        // SAFETY: blocks live as long as QEMU; an access or entry happens inside of one.
        let Some(number) = (unsafe { self.block.as_ref() }).map(|block| block.number) else { return };
        self.make_room(2);
        self.writer.put(&enter_words(number, self.cycle));
    }

    #[inline]
    fn form(&mut self, info: MemInfo) -> AccessForm {
        let slot = &mut self.forms[(info ^ info >> 8 ^ info >> 16) as usize % FORMS];
        if slot.info != info {
            // SAFETY: in the callback of that access.
            let (size_shift, store) =
                unsafe { ((self.api.mem_size_shift)(info) as u8, (self.api.mem_is_store)(info)) };
            *slot = AccessForm { info, size_shift, store };
        }
        *slot
    }

    /// The physical address, and whether a device answers there (asked only where the page is new).
    #[inline]
    fn physical(&self, info: MemInfo, addr: u64) -> Option<(u64, *const c_void)> {
        // SAFETY: in the callback of that access.
        let place = unsafe { (self.api.get_hwaddr)(info, addr) };
        if place.is_null() {
            return None;
        }
        // SAFETY: QEMU's description of that access's place, in its callback.
        let told = unsafe { (self.api.hwaddr_phys_addr)(place) };
        // SAFETY: QEMU's description is good until the callback ends.
        if told >= self.offsets_from && !unsafe { (self.api.hwaddr_is_io)(place) } {
            return Some((self.options.ram.addr(told), place));
        }
        Some((told, place))
    }

    /// Records where a page lies, if that is news. Returns whether a device is there.
    #[inline]
    fn tell_page(&mut self, addr: u64, physical: u64, place: *const c_void, next: bool) -> bool {
        let page = addr >> PAGE_SHIFT;
        let slot = page_slot(page);
        let told = self.pages[slot];
        let phys = physical >> PAGE_SHIFT;
        if told.virt == page && told.phys == phys {
            return told.device;
        }
        // SAFETY: in the callback of that access.
        let device = unsafe { (self.api.hwaddr_is_io)(place) };
        // Memory of devices and firmware is theirs too: what is rebuilt is the guest's main memory.
        let device = device || self.ram.as_ref().is_some_and(|ram| ram.layout().piece(physical).is_none());
        self.pages[slot] = ToldPage { virt: page, phys, device };
        self.make_room(1);
        self.writer.put(&[page_word(phys, device, next)]);
        device
    }

    #[inline]
    fn access(&mut self, info: MemInfo, addr: u64, index: u16) {
        let form = self.form(info);
        let size = 1usize << form.size_shift;
        let of_kind = if form.store { self.options.stores } else { self.options.loads };
        let task_switch = form.store && self.tasks.is_watched(addr);
        let wanted = self.on && of_kind;
        if !wanted && !task_switch {
            return;
        }
        let Some((physical, place)) = self.physical(info, addr) else { return };
        if task_switch && let Some(ram) = &self.ram {
            let events = self.tasks.switched(physical, self.cpu, ram);
            self.tell_tasks(events);
        }
        let outside =
            |span: &Option<NumberRange>, at: u64| span.as_ref().is_some_and(|span| !span.contains(&at));
        // The store that makes a task the present one is its own.
        let wanted = self.on && of_kind;
        if !wanted || outside(&self.options.phys, physical) || outside(&self.options.virt, addr) {
            return;
        }
        if !self.entered {
            self.tell_entry();
        }
        let device = self.tell_page(addr, physical, place, false);
        let in_page = (PAGE_MASK + 1 - (addr & PAGE_MASK)) as usize;
        let mut next_page = None;
        if size > in_page {
            let next = (addr | PAGE_MASK).wrapping_add(1);
            if let Some((physical, place)) = self.physical(info, next) {
                self.tell_page(next, physical, place, true);
                next_page = Some(physical);
            }
        }
        let value = if device || !(self.options.read_data || form.store && self.options.data) {
            None
        } else {
            self.value(info, size, physical, in_page, next_page)
        };
        let word = access_word(addr, index, form.size_shift, form.store, value.is_some());
        let Some(value) = value else {
            self.make_room(1);
            self.writer.put(&[word]);
            return;
        };
        self.make_room(3);
        let words = [word, value as u64, (value >> 64) as u64];
        self.writer.put(if form.size_shift > 3 { &words } else { &words[..2] });
        if form.store
            && let Some(ram) = &mut self.ram
        {
            let first = size.min(in_page);
            ram.note(physical, value, first);
            if let Some(next_page) = next_page {
                ram.note(next_page, value >> (8 * first), size - first);
            }
        }
    }

    /// What the access left in memory, or found there.
    fn value(
        &self,
        info: MemInfo,
        size: usize,
        physical: u64,
        in_page: usize,
        next_page: Option<u64>,
    ) -> Option<u128> {
        if let Some(value) = self.api.value {
            // SAFETY: in the callback of that access.
            return (size <= 16).then(|| unsafe { value(info) });
        }
        let ram = self.ram.as_ref()?;
        if size <= in_page {
            return ram.load(physical, size);
        }
        let low = ram.load(physical, in_page)?;
        let high = ram.load(next_page?, size - in_page)?;
        Some(low | high << (8 * in_page))
    }

    /// Looks at what does not change with every block.
    fn look(&mut self) {
        if self.first {
            self.first = false;
            self.thread = Some(std::thread::current().id());
            self.started = Instant::now();
            self.ram = Ram::find(self.options.ram);
            if self.ram.is_none() {
                self.complete = false;
                self.text(TEXT_MEMORY, "the guest's memory is not shared with the recorder");
            }
        }
        if COMPARE.swap(false, Ordering::Relaxed) {
            self.sync();
            // Where nothing is recorded, and vCPUs that take turns are never idle, this alone says that the machine runs.
            self.tell_clock();
        }
        let timed = self.options.millis.is_some();
        let bounds = self.options.cycles.iter().flat_map(|span| [span.start, span.end]);
        let next = bounds.filter(|&bound| bound > self.cycle).min().unwrap_or(u64::MAX);
        let next = if timed { next.min(self.cycle + LOOK_CYCLES) } else { next };
        LOOK_AT.store(next, Ordering::Release);
        self.decide();
    }

    /// Decides whether accesses are recorded, by all conditions.
    fn decide(&mut self) {
        let options = &self.options;
        let cycle = self.cycle;
        let millis = || u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let on = options.cycles.as_ref().is_none_or(|span| span.contains(&cycle))
            && options.millis.as_ref().is_none_or(|span| span.contains(&millis()))
            && (!options.marked || self.marked)
            && options.process.as_ref().is_none_or(|name| self.tasks.runs(name));
        if on != self.on {
            self.on = on;
            self.tell_cpu();
            if on {
                self.sync();
            }
            let mark = if on { MARK_ON } else { MARK_OFF };
            self.record(&MachineRecord::Mark { cycle, mark });
        }
        self.watching = self.on || self.tasks.is_ready();
    }

    /// The guest executed a marker instruction: 0 and 1 switch recording on and off, others are only noted.
    fn mark(&mut self, mark: u32) {
        let cycle = self.cycle;
        match mark {
            MARK_ON | MARK_OFF => {
                self.marked = mark == MARK_ON;
                self.decide();
            }
            _ => {
                self.tell_cpu();
                self.record(&MachineRecord::Mark { cycle, mark });
            }
        }
    }

    /// Compares memory with what the trace knows of it, and records what differs.
    fn sync(&mut self) {
        if !self.complete || !self.on && self.synced > 0 {
            return;
        }
        let Some(mut ram) = self.ram.take() else { return };
        let within = self.options.phys.clone().unwrap_or(0..ram.layout().end());
        let (cycle, since) = (self.cycle, self.synced);
        self.tell_cpu();
        ram.compare(&within, |addr, bytes| {
            for (number, bytes) in bytes.chunks(MAX_FOUND_BYTES).enumerate() {
                let addr = addr + (number * MAX_FOUND_BYTES) as u64;
                self.record(&MachineRecord::Found { cycle, since, addr, bytes });
            }
        });
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let time_ns = since.map_or(0, |since| since.as_nanos() as u64);
        self.record(&MachineRecord::Sync { cycle, time_ns });
        self.synced = cycle;
        self.ram = Some(ram);
    }

    fn tell_clock(&mut self) {
        self.record(&MachineRecord::Clock { cycle: self.cycle });
    }

    fn text(&mut self, what: u32, text: &str) {
        self.record(&MachineRecord::Text { what, text: text.as_bytes() });
    }

    fn record(&mut self, record: &MachineRecord<'_>) {
        let mut words = [0; MAX_MACHINE_WORDS];
        let len = encode_machine(record, &mut words);
        self.make_room(len);
        self.writer.put(&words[..len]);
    }

    /// Takes a new buffer where the present one has no room for so many words. Waits while the pool is full.
    #[inline]
    fn make_room(&mut self, words: usize) {
        if !self.writer.has_room(words) {
            self.next_buffer();
        }
    }

    #[cold]
    fn next_buffer(&mut self) {
        const { assert!(MAX_MACHINE_WORDS * 8 <= BUFFER_BYTES) };
        self.submit();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        loop {
            let control = self.pool.control();
            let seen = control.freed_word().load(Ordering::Acquire);
            if control.is_closed() || rustix::process::getppid() != self.parent {
                // The recorder is gone: the machine goes on, unrecorded.
                self.on = false;
                self.watching = false;
                return;
            }
            if self.writer.refill(&self.pool, 0, tid) {
                return;
            }
            channel::wait_for_free(&self.pool, seen);
        }
    }

    fn submit(&mut self) {
        if self.writer.submit(&self.pool) {
            channel::wake_recorder(&self.pool);
        }
    }
}
