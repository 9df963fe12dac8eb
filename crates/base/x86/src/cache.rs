//! The cache of decoded instructions and their stubs, and the execution of a step.

use memref::VirtAddr;

use crate::decode::{Form, Recipe, decode};
use crate::operand::{Environment, Operand, StepOutcome, Unsupported};
use crate::registers::{NONE, Registers};
use crate::stub::{COPY_AT, FAULT_EXIT_AT, HEADER_BYTES, MAX_STUB_BYTES, build, write_header};
use crate::vector::{Components, Elements, MAX_ELEMENTS};

/// Components of the vector state that stubs load and save: x87, SSE, AVX, masks, AVX-512. Tiles are left alone.
const STATE_COMPONENTS: u64 = 0xe7;
const DIRECTION_FLAG: u64 = 1 << 10;
const MAX_BYTES: usize = 15;
/// Places in the table that are looked at for one address.
const PROBES: usize = 4;

/// One instruction of the table. An `ip` of zero: none.
#[repr(C)]
#[derive(Clone, Copy)]
struct CachedStep {
    ip: u64,
    bytes: [u8; 16],
    len: u8,
    /// Distance of the stub from the start of the code memory; zero where there is none.
    stub: u32,
    decoded: Recipe,
}

/// Decoded instructions and stubs of one thread, in memory that the caller gave.
///
/// Instructions are known by their address, and checked against the bytes that stand there now: code may change.
pub struct CodeCache<'a> {
    code: &'a mut [u8],
    used: usize,
    table: &'a mut [core::mem::MaybeUninit<CachedStep>],
    state_mask: u64,
    components: Components,
}

impl core::fmt::Debug for CodeCache<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CodeCache").field("used", &self.used).finish_non_exhaustive()
    }
}

impl<'a> CodeCache<'a> {
    /// A cache over two pieces of memory.
    ///
    /// # Safety
    /// `code` must be `code_len` bytes that can be read, written and executed, `table` `table_len` bytes of zeros, aligned
    /// to 16; both for as long as the cache lives, and used by nobody else. The cache, once used, must not be moved to
    /// another thread while a step runs.
    pub unsafe fn new(code: *mut u8, code_len: usize, table: *mut u8, table_len: usize) -> Self {
        // SAFETY: the caller's promise; a table entry may be anything, and zeros say that there is none.
        let (code, table) = unsafe {
            (
                core::slice::from_raw_parts_mut(code, code_len),
                core::slice::from_raw_parts_mut(table.cast(), table_len / size_of::<CachedStep>()),
            )
        };
        write_header(code);
        // SAFETY: xgetbv with index 0 exists wherever the kernel uses xsave, which all processors with AVX do; where it
        // does not, the signal frame has no such state either.
        let enabled = unsafe { core::arch::x86_64::_xgetbv(0) };
        let components = Components::of_processor();
        Self { code, used: HEADER_BYTES, table, state_mask: enabled & STATE_COMPONENTS, components }
    }

    /// Executes the instruction at `regs.rip`, and advances it. `state` is the xsave area that goes with the registers,
    /// in the standard form, aligned to 64.
    ///
    /// # Safety
    /// The code at rip must be readable, `state` must be valid or null (then instructions that need it are not
    /// executed), and where the environment lets an access be made, that must be sound for this process. A fault in a
    /// stub must reach [`CodeCache::recover`].
    pub unsafe fn step<E: Environment>(
        &mut self,
        regs: &mut Registers,
        state: *mut u8,
        env: &mut E,
    ) -> StepOutcome {
        // SAFETY: the caller's promise.
        let Some(entry) = (unsafe { self.find(regs.rip) }) else {
            return StepOutcome::NotEmulated(Unsupported::Space);
        };
        let next = entry.ip.wrapping_add(u64::from(entry.len));
        match entry.decoded.form {
            Form::Plain => {
                // SAFETY: a stub of ours.
                if !unsafe { self.run(entry.stub, regs, 0, state) } {
                    return StepOutcome::Fault;
                }
            }
            Form::Memory => {
                let decoded = &entry.decoded;
                let mut addr = decoded.effective(regs, env);
                let mut shift = 0;
                if decoded.bit_register != NONE {
                    shift = bit_offset(regs.get(decoded.bit_register), decoded.len);
                    addr = addr.wrapping_add(shift);
                }
                let operand = Operand { addr, len: decoded.len, kind: decoded.kind };
                let Ok(place) = env.access(operand) else { return StepOutcome::Refused };
                // SAFETY: a stub of ours; the environment vouches for the place.
                if !unsafe { self.run(entry.stub, regs, place.wrapping_sub(shift), state) } {
                    return StepOutcome::Fault;
                }
            }
            Form::Elements(elements) => {
                // SAFETY: the caller's promise.
                let place = match unsafe { self.place_elements(&entry.decoded, elements, regs, state, env) } {
                    Ok(place) => place,
                    Err(outcome) => return outcome,
                };
                // SAFETY: a stub of ours; the environment vouches for the place of each element.
                if !unsafe { self.run(entry.stub, regs, place, state) } {
                    return StepOutcome::Fault;
                }
            }
            Form::Nop => {}
            Form::Not(reason) => return StepOutcome::NotEmulated(reason),
            _ => {
                // SAFETY: the caller's promise.
                return unsafe { self.by_hand(&entry.decoded, regs, env) };
            }
        }
        regs.rip = next;
        StepOutcome::Executed
    }

    /// Announces the elements that are accessed, and returns what stands for the operand's address (of a gather: for its
    /// base) so that each of them is where the environment wants it.
    unsafe fn place_elements<E: Environment>(
        &self,
        decoded: &Recipe,
        elements: Elements,
        regs: &Registers,
        state: *const u8,
        env: &mut E,
    ) -> Result<u64, StepOutcome> {
        let base = decoded.effective(regs, env);
        // SAFETY: the caller's promise.
        let enabled = unsafe { elements.enabled(self.components, state) };
        let mut moved = None;
        for element in (0..MAX_ELEMENTS).filter(|element| enabled >> element & 1 != 0) {
            // SAFETY: the caller vouches for the state.
            let apart =
                unsafe { elements.displacement(self.components, state, element, decoded.address.scale) };
            let addr = base.wrapping_add(apart);
            let operand = Operand { addr, len: elements.bytes.into(), kind: decoded.kind };
            let Ok(place) = env.access(operand) else { return Err(StepOutcome::Refused) };
            let distance = place.wrapping_sub(addr);
            if *moved.get_or_insert(distance) != distance {
                // Some elements here, some there: no one address does for both.
                return Err(StepOutcome::NotEmulated(Unsupported::Memory));
            }
        }
        let distance = moved.unwrap_or(0);
        if elements.is_gather() {
            // The stub adds the displacement and the indices itself.
            return Ok(base.wrapping_sub(decoded.address.displacement).wrapping_add(distance));
        }
        Ok(base.wrapping_add(distance))
    }

    /// If a signal interrupted one of our stubs: makes its return continue where the step ends with
    /// [`StepOutcome::Fault`], and says so.
    pub fn recover(&self, interrupted: &mut Registers) -> bool {
        if !self.contains(interrupted.rip) {
            return false;
        }
        interrupted.rip = self.code.as_ptr() as u64 + FAULT_EXIT_AT as u64;
        interrupted.rflags &= !DIRECTION_FLAG;
        true
    }

    /// Whether an address lies in the code that it makes.
    pub fn contains(&self, addr: u64) -> bool {
        let start = self.code.as_ptr() as u64;
        (start..start + self.code.len() as u64).contains(&addr)
    }

    /// The entry of an address, decoded now if need be.
    unsafe fn find(&mut self, ip: u64) -> Option<CachedStep> {
        let places = self.table.len();
        if places == 0 {
            return None;
        }
        let hash = (ip.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        let mut place = hash % places;
        for probe in 0..PROBES {
            let index = (hash + probe) % places;
            // SAFETY: zeros or a written entry: both are valid as far as `ip`, which comes first, is zero or not.
            let known = unsafe { self.table.get(index)?.as_ptr().cast::<u64>().read() };
            if known == ip {
                // SAFETY: an entry with an `ip` was written as a whole.
                let entry = unsafe { self.table.get(index)?.assume_init_ref() };
                // SAFETY: the caller says that the code is readable.
                if unsafe { same(ip, &entry.bytes, entry.len) } {
                    return Some(*entry);
                }
                place = index;
                break;
            }
            if known == 0 {
                place = index;
                break;
            }
        }
        // SAFETY: the caller says that the code at `ip` is readable.
        let entry = unsafe { self.make(ip)? };
        self.table.get_mut(place)?.write(entry);
        Some(entry)
    }

    unsafe fn make(&mut self, ip: u64) -> Option<CachedStep> {
        let mut bytes = [0u8; 16];
        let on_page = (VirtAddr::PAGE_BYTES - ip % VirtAddr::PAGE_BYTES) as usize;
        let mut count = on_page.min(MAX_BYTES);
        // SAFETY: the page that rip is in is readable.
        unsafe { copy_code(ip, &mut bytes, 0, count) };
        let mut decoded = decode(bytes.get(..count)?, ip);
        if decoded.is_none() && count < MAX_BYTES {
            // SAFETY: the instruction goes on after the page, so that page must be there to execute it.
            unsafe { copy_code(ip, &mut bytes, count, MAX_BYTES) };
            count = MAX_BYTES;
            decoded = decode(bytes.get(..count)?, ip);
        }
        let mut decoded = decoded?;
        let len = decoded.instruction.len().max(1);
        let mut stub = 0;
        if matches!(decoded.form, Form::Plain | Form::Memory | Form::Elements(_)) {
            if self.used + MAX_STUB_BYTES > self.code.len() {
                self.flush();
            }
            let at = self.used;
            let mask = self.state_mask;
            match self
                .code
                .get_mut(at..at + MAX_STUB_BYTES)
                .and_then(|place| build(&decoded, place, at, mask))
            {
                Some(bytes) => {
                    stub = at as u32;
                    self.used = (at + bytes).next_multiple_of(16);
                }
                None => decoded.form = Form::Not(Unsupported::Memory),
            }
        }
        if let Some(rest) = bytes.get_mut(len..) {
            rest.fill(0);
        }
        Some(CachedStep { ip, bytes, len: len as u8, stub, decoded })
    }

    /// Forgets all stubs, and with them all entries.
    fn flush(&mut self) {
        self.used = HEADER_BYTES;
        for place in self.table.iter_mut() {
            // SAFETY: `ip` comes first, and zero says that there is no entry.
            unsafe { place.as_mut_ptr().cast::<u64>().write(0) };
        }
    }

    /// Runs a stub. `false`: it faulted.
    unsafe fn run(&mut self, stub: u32, regs: &mut Registers, addr: u64, state: *mut u8) -> bool {
        type Stub = unsafe extern "sysv64" fn(*mut Registers, u64, *mut u8) -> u32;
        let entry = self.code.as_ptr().wrapping_add(stub as usize);
        // SAFETY: `build` wrote a function of this type there.
        unsafe { core::mem::transmute::<*const u8, Stub>(entry)(regs, addr, state) == 0 }
    }

    /// Copies bytes where either side may fault. `false`: it did.
    pub(crate) unsafe fn copy(&mut self, to: u64, from: u64, len: u64) -> bool {
        type Copy = unsafe extern "sysv64" fn(u64, u64, u64) -> u32;
        let entry = self.code.as_ptr().wrapping_add(COPY_AT);
        // SAFETY: `write_header` wrote a function of this type there; the caller vouches for the places.
        unsafe { core::mem::transmute::<*const u8, Copy>(entry)(to, from, len) == 0 }
    }
}

// `ip` is read through a pointer to the entry.
const _: () = assert!(core::mem::offset_of!(CachedStep, ip) == 0);

/// Bytes that a register's bit number moves an operand of `len` bytes.
fn bit_offset(bits: u64, len: u32) -> u64 {
    let signed = match len {
        2 => i64::from(bits as i16),
        4 => i64::from(bits as i32),
        _ => bits as i64,
    };
    let bits = i64::from(len) * 8;
    signed.div_euclid(bits).wrapping_mul(i64::from(len)) as u64
}

/// Whether `len` bytes of code at `ip` are these.
unsafe fn same(ip: u64, bytes: &[u8; 16], len: u8) -> bool {
    if ip % VirtAddr::PAGE_BYTES <= VirtAddr::PAGE_BYTES - 16 {
        // SAFETY: 16 bytes on the page of the instruction.
        let now = unsafe { (ip as *const u128).read_unaligned() };
        let mask = (1u128 << (u32::from(len) * 8)) - 1;
        return (now ^ u128::from_le_bytes(*bytes)) & mask == 0;
    }
    bytes.iter().take(len.into()).enumerate().all(|(index, byte)| {
        // SAFETY: a byte of the instruction.
        *byte == unsafe { (ip as *const u8).add(index).read() }
    })
}

unsafe fn copy_code(ip: u64, bytes: &mut [u8; 16], from: usize, to: usize) {
    for (index, byte) in bytes.iter_mut().enumerate().take(to).skip(from) {
        // SAFETY: the caller says that these bytes are readable.
        *byte = unsafe { (ip as *const u8).add(index).read_volatile() };
    }
}
