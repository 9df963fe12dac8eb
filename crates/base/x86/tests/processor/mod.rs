//! The processor as an oracle: it executes one instruction at a time from a state chosen by a test.
//!
//! A signal handler puts the state into the signal's frame, with the trap flag set, and returns into it. The instruction
//! is executed; its trap (or fault) is the next signal, whose handler extracts the state and returns to the test. So every
//! register belongs to the test, and the address where execution continues is known even if nothing is mapped there.
//!
//! Memory is below 4 GiB, so that 32-bit and absolute addresses reach it, and has inaccessible pages on both sides.

use std::cell::UnsafeCell;
use std::sync::{Once, OnceLock};

use x86::{RegisterBytes, RegisterKind, Registers};

/// Bytes of memory that can be accessed.
pub(crate) const DATA_BYTES: usize = 8192;
const PAGE: usize = 4096;
const FRAME_BYTES: usize = 32 << 10;
const TRAP_FLAG: u64 = 1 << 8;
/// Flags that are compared and chosen: the arithmetic ones.
pub(crate) const FLAGS: u64 = x86::ARITHMETIC_FLAGS;
const DIRECTION_FLAG: u64 = 1 << 10;
/// Interrupts are on, and the bit that is always set.
const ALWAYS: u64 = 0x202;
/// Steps of one instruction: a repeated one traps after each element.
const MAX_STEPS: usize = 64;

/// The state of a processor and of the memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcessorState {
    pub(crate) general: Registers,
    pub(crate) vectors: Vec<[u8; 64]>,
    pub(crate) masks: [u64; 8],
    pub(crate) mmx: [u64; 8],
    pub(crate) memory: Vec<u8>,
}

impl ProcessorState {
    /// The bytes of a register.
    pub(crate) fn bytes(&self, register: RegisterKind) -> Vec<u8> {
        match register {
            RegisterKind::General(number) => self.general.get(number).to_le_bytes().to_vec(),
            RegisterKind::Vector(number) => self.vectors[usize::from(number)].to_vec(),
            RegisterKind::Mmx(number) => self.mmx[usize::from(number)].to_le_bytes().to_vec(),
            RegisterKind::Mask(number) => self.masks[usize::from(number)].to_le_bytes().to_vec(),
            RegisterKind::X87(_) => Vec::new(),
        }
    }

    /// Changes all bits of some of a register's bytes.
    pub(crate) fn flip(&mut self, bytes: RegisterBytes) {
        let range = usize::from(bytes.first)..usize::from(bytes.first + bytes.len);
        let word = || {
            let ones = if bytes.len >= 8 { u64::MAX } else { (1 << (bytes.len * 8)) - 1 };
            ones << (bytes.first * 8)
        };
        match bytes.register {
            RegisterKind::General(number) => {
                self.general.set_number(number, self.general.get(number) ^ word());
            }
            RegisterKind::Vector(number) => {
                self.vectors[usize::from(number)][range].iter_mut().for_each(|byte| *byte ^= 0xff);
            }
            RegisterKind::Mmx(number) => self.mmx[usize::from(number)] ^= word(),
            RegisterKind::Mask(number) => self.masks[usize::from(number)] ^= word(),
            RegisterKind::X87(_) => {}
        }
    }
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// By that signal.
    Fault(i32),
}

/// What the handlers of one thread's signals know.
struct Shuttle {
    state: *mut ProcessorState,
    saved_registers: [i64; 23],
    saved_vectors: Vec<u8>,
    signal: i32,
    is_out: bool,
}

thread_local! {
    static SHUTTLE: UnsafeCell<Option<Shuttle>> = const { UnsafeCell::new(None) };
}

/// Memory, code and the processor.
pub(crate) struct Processor {
    pub(crate) data: u64,
    pub(crate) code: u64,
}

/// Where the components of the vector state are in the standard form, and which there are.
#[derive(Clone, Copy)]
struct VectorLayout {
    ymm_high: usize,
    masks: usize,
    zmm_high: usize,
    zmm_upper: usize,
    enabled: u64,
}

/// As the processor says; it is asked once, which under a hypervisor takes long.
fn layout() -> VectorLayout {
    static LAYOUT: OnceLock<VectorLayout> = OnceLock::new();
    *LAYOUT.get_or_init(|| {
        let at = |component: u32| core::arch::x86_64::__cpuid_count(0xd, component).ebx as usize;
        // SAFETY: the tests are for processors whose system uses xsave.
        let enabled = unsafe { core::arch::x86_64::_xgetbv(0) };
        VectorLayout { ymm_high: at(2), masks: at(5), zmm_high: at(6), zmm_upper: at(7), enabled }
    })
}

/// How many vector registers there are, and how many bytes of each.
pub(crate) fn vector_shape() -> (usize, usize) {
    let has = |component: u32| layout().enabled >> component & 1 != 0;
    match (has(2), has(6) && has(7)) {
        (_, true) => (32, 64),
        (true, _) => (16, 32),
        _ => (16, 16),
    }
}

fn map(len: usize, prot: i32) -> u64 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
    // SAFETY: a new anonymous mapping.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    memory as u64
}

impl Processor {
    pub(crate) fn new() -> Self {
        static HANDLERS: Once = Once::new();
        // The handlers find the answer there.
        layout();
        HANDLERS.call_once(|| {
            for signal in
                [libc::SIGUSR1, libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE]
            {
                // SAFETY: a handler of this module, which for signals of others ends the process.
                unsafe {
                    let mut action: libc::sigaction = std::mem::zeroed();
                    action.sa_sigaction = handle as *const () as usize;
                    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                    assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
                }
            }
        });
        let rw = libc::PROT_READ | libc::PROT_WRITE;
        let stack =
            libc::stack_t { ss_sp: map(16 * PAGE, rw) as *mut libc::c_void, ss_flags: 0, ss_size: 16 * PAGE };
        // SAFETY: a fresh mapping for this thread's signals.
        assert_eq!(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }, 0);
        let data = map(DATA_BYTES + 2 * PAGE, libc::PROT_NONE) + PAGE as u64;
        // SAFETY: the middle of that mapping.
        assert_eq!(unsafe { libc::mprotect(data as *mut libc::c_void, DATA_BYTES, rw) }, 0);
        let code = map(4 * PAGE, rw | libc::PROT_EXEC);
        // SAFETY: nobody else looks at this thread's own cell now.
        SHUTTLE.with(|shuttle| unsafe {
            *shuttle.get() = Some(Shuttle {
                state: std::ptr::null_mut(),
                saved_registers: [0; 23],
                saved_vectors: vec![0; FRAME_BYTES],
                signal: 0,
                is_out: false,
            });
        });
        Self { data, code }
    }

    /// Writes code where it is executed.
    pub(crate) fn put(&self, at: u64, bytes: &[u8]) {
        assert!(at >= self.code && at + bytes.len() as u64 <= self.code + 4 * PAGE as u64);
        // SAFETY: the code's own mapping.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
    }

    /// Executes the one instruction at `state.general.rip`, all its repetitions.
    pub(crate) fn step(&self, state: &ProcessorState) -> (ProcessorState, Ended) {
        self.run(state, |rip| rip != state.general.rip)
    }

    /// Executes instructions until that is where the next one is.
    pub(crate) fn run(&self, state: &ProcessorState, until: impl Fn(u64) -> bool) -> (ProcessorState, Ended) {
        let mut state = state.clone();
        for _ in 0..MAX_STEPS {
            match self.trap(&mut state) {
                libc::SIGTRAP if until(state.general.rip) => return (state, Ended::Done),
                libc::SIGTRAP => {}
                signal => return (state, Ended::Fault(signal)),
            }
        }
        panic!("it does not come to an end: {:x?}", state.general);
    }

    /// Executes until the next signal: which one that is.
    fn trap(&self, state: &mut ProcessorState) -> i32 {
        // SAFETY: the memory is this processor's, and its thread's cell is only looked at by the handlers meanwhile.
        unsafe {
            std::ptr::copy_nonoverlapping(state.memory.as_ptr(), self.data as *mut u8, DATA_BYTES);
            SHUTTLE.with(|shuttle| {
                if let Some(shuttle) = &mut *shuttle.get() {
                    shuttle.state = state;
                    shuttle.is_out = false;
                }
            });
            libc::raise(libc::SIGUSR1);
            std::ptr::copy_nonoverlapping(self.data as *const u8, state.memory.as_mut_ptr(), DATA_BYTES);
            SHUTTLE.with(|shuttle| (*shuttle.get()).as_ref().map_or(0, |shuttle| shuttle.signal))
        }
    }
}

/// The frame's vector state.
struct SignalFrame {
    area: *mut u8,
}

impl SignalFrame {
    const LEGACY_ST_AT: usize = 32;
    const LEGACY_XMM_AT: usize = 160;
    const SIZE_AT: usize = 468;
    const PRESENT_AT: usize = 512;

    unsafe fn len(&self) -> usize {
        // SAFETY: the caller's frame has the kernel's note on its size.
        unsafe { self.area.add(Self::SIZE_AT).cast::<u32>().read_unaligned() as usize }
    }

    /// Copies a part, and says that its component is there.
    unsafe fn put(&self, component: u32, at: usize, bytes: &[u8]) {
        // SAFETY: a part of the area.
        unsafe {
            let present = self.area.add(Self::PRESENT_AT).cast::<u64>();
            present.write_unaligned(present.read_unaligned() | 1 << component);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.area.add(at), bytes.len());
        }
    }

    unsafe fn get(&self, component: u32, at: usize, bytes: &mut [u8]) {
        // SAFETY: a part of the area.
        unsafe {
            if self.area.add(Self::PRESENT_AT).cast::<u64>().read_unaligned() >> component & 1 == 0 {
                bytes.fill(0);
            } else {
                std::ptr::copy_nonoverlapping(self.area.add(at), bytes.as_mut_ptr(), bytes.len());
            }
        }
    }

    /// Calls `each` with the parts of a state: component, place, bytes.
    fn parts(state: &mut ProcessorState, mut each: impl FnMut(u32, usize, &mut [u8])) {
        for (number, word) in state.mmx.iter_mut().enumerate() {
            let mut bytes = [0xff; 10];
            bytes[..8].copy_from_slice(&word.to_le_bytes());
            each(0, Self::LEGACY_ST_AT + number * 16, &mut bytes);
            *word = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        }
        let layout = layout();
        let (_, len) = vector_shape();
        for (number, vector) in state.vectors.iter_mut().enumerate() {
            if number >= 16 {
                each(7, layout.zmm_upper + (number - 16) * 64, vector);
                continue;
            }
            each(1, Self::LEGACY_XMM_AT + number * 16, &mut vector[..16]);
            if len >= 32 {
                each(2, layout.ymm_high + number * 16, &mut vector[16..32]);
            }
            if len >= 64 {
                each(6, layout.zmm_high + number * 32, &mut vector[32..64]);
            }
        }
        if len >= 64 {
            for (number, mask) in state.masks.iter_mut().enumerate() {
                let mut bytes = mask.to_le_bytes();
                each(5, layout.masks + number * 8, &mut bytes);
                *mask = u64::from_le_bytes(bytes);
            }
        }
    }
}

unsafe extern "C" fn handle(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    SHUTTLE.with(|shuttle| {
        // SAFETY: the kernel's context, and this thread's cell, which nobody else looks at during a signal.
        unsafe {
            let context = &mut *context.cast::<libc::ucontext_t>();
            let Some(shuttle) = &mut *shuttle.get() else { libc::abort() };
            let frame = SignalFrame { area: context.uc_mcontext.fpregs.cast() };
            let state = &mut *shuttle.state;
            let registers = context.uc_mcontext.gregs.as_mut_ptr().cast::<Registers>();
            let all = frame.len().min(FRAME_BYTES);
            if signal == libc::SIGUSR1 && !shuttle.is_out {
                shuttle.is_out = true;
                shuttle.saved_registers = context.uc_mcontext.gregs;
                std::ptr::copy_nonoverlapping(frame.area, shuttle.saved_vectors.as_mut_ptr(), all);
                *registers = state.general;
                let flags = state.general.rflags & (FLAGS | DIRECTION_FLAG);
                (*registers).rflags = flags | ALWAYS | TRAP_FLAG;
                // The x87 unit is empty, and no exception is let through.
                frame.put(0, 0, &[0x7f, 3, 0, 0, 0, 0]);
                frame.put(1, 24, &[0x80, 0x1f, 0, 0]);
                SignalFrame::parts(state, |component, at, bytes| frame.put(component, at, bytes));
            } else if shuttle.is_out {
                shuttle.is_out = false;
                shuttle.signal = signal;
                state.general = *registers;
                state.general.rflags &= FLAGS | DIRECTION_FLAG;
                SignalFrame::parts(state, |component, at, bytes| frame.get(component, at, bytes));
                context.uc_mcontext.gregs = shuttle.saved_registers;
                std::ptr::copy_nonoverlapping(shuttle.saved_vectors.as_ptr(), frame.area, all);
            } else {
                // A fault of the test itself.
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    });
}
