//! Executes every instruction here twice: by the processor itself on the original memory, and by the engine on another view of
//! equal memory. Registers, flags, vectors and bytes must be the same, and the accesses must be those that the engine reports.

use std::arch::asm;

use iced_x86::code_asm::*;
use proptest::prelude::*;
use x86::{AccessKind, CodeCache, Environment, Operand, Refused, Registers, StepOutcome};

const DATA_BYTES: usize = 8192;
/// The middle of the data: room for negative offsets.
const MIDDLE: u64 = 4096;
const STATE_BYTES: usize = 16384;
/// The arithmetic flags.
const FLAGS: u64 = 0x8d5;

fn map(len: usize, prot: i32) -> *mut u8 {
    // SAFETY: a new anonymous mapping.
    let memory = unsafe {
        libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    assert_ne!(memory, libc::MAP_FAILED);
    memory.cast()
}

/// Accesses: offset, bytes, kind.
type Seen = Vec<(u64, u32, AccessKind)>;

/// Memory with two views of equal content, code, and an engine.
struct Bench {
    /// What instructions name.
    data: *mut u8,
    /// Where accesses are made instead.
    view: *mut u8,
    code: *mut u8,
    /// Two vector states, aligned to 64: what both sides begin with, and the native side's result.
    states: *mut u8,
    cache: CodeCache<'static>,
}

/// Sends accesses to the data to the view, and remembers them.
struct View {
    data: u64,
    view: u64,
    seen: Vec<(u64, u32, AccessKind)>,
}

impl Environment for View {
    fn access(&mut self, operand: Operand) -> Result<u64, Refused> {
        let offset = operand.addr.wrapping_sub(self.data);
        if offset >= DATA_BYTES as u64 {
            return Ok(operand.addr);
        }
        self.seen.push((offset, operand.len, operand.kind));
        Ok(self.view + offset)
    }

    fn fs_base(&self) -> u64 {
        // SAFETY: the first word of the thread control block is its address.
        unsafe {
            let base: u64;
            asm!("mov {}, fs:[0]", out(reg) base);
            base
        }
    }

    fn gs_base(&self) -> u64 {
        0
    }
}

impl Bench {
    fn new() -> Self {
        let rw = libc::PROT_READ | libc::PROT_WRITE;
        let rwx = rw | libc::PROT_EXEC;
        // SAFETY: fresh mappings of these sizes, never unmapped.
        let cache = unsafe { CodeCache::new(map(1 << 16, rwx), 1 << 16, map(1 << 16, rw), 1 << 16) };
        let bench = Self {
            data: map(DATA_BYTES, rw),
            view: map(DATA_BYTES, rw),
            code: map(4096, rwx),
            states: map(2 * STATE_BYTES, rw),
            cache,
        };
        for index in 0..DATA_BYTES {
            let byte = (index as u8).wrapping_mul(31) ^ (index >> 8) as u8;
            // SAFETY: inside both mappings.
            unsafe {
                *bench.data.add(index) = byte;
                *bench.view.add(index) = byte;
            }
        }
        bench
    }

    fn bytes(memory: *mut u8) -> &'static [u8] {
        // SAFETY: mapped for ever, and not written while the slice is looked at.
        unsafe { std::slice::from_raw_parts(memory, DATA_BYTES) }
    }

    /// Runs one instruction both ways. Returns the accesses that the engine announced.
    fn run(
        &mut self,
        start: Registers,
        mut build: impl FnMut(&mut CodeAssembler),
    ) -> Vec<(u64, u32, AccessKind)> {
        let (native, accesses) = self.both(start, &mut build);
        assert_eq!(Self::bytes(self.data), Self::bytes(self.view), "memory differs");
        let (native, engine) = native;
        assert_eq!(native, engine, "registers differ");
        accesses
    }

    fn both(
        &mut self,
        start: Registers,
        build: &mut dyn FnMut(&mut CodeAssembler),
    ) -> ((Registers, Registers), Seen) {
        let mut assembler = CodeAssembler::new(64).unwrap();
        build(&mut assembler);
        let bytes = assembler.assemble(self.code as u64).unwrap();
        let rip = self.code as u64;
        // SAFETY: the code page is ours.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.code, bytes.len()) };
        let state = self.states;
        // SAFETY: the second half of the mapping.
        let native_state = unsafe { state.add(STATE_BYTES) };
        // SAFETY: both halves are as large as any vector state, and apart.
        unsafe { std::ptr::copy_nonoverlapping(state, native_state, STATE_BYTES) };
        let mut engine = Registers { rip, ..start };
        let mut view = View { data: self.data as u64, view: self.view as u64, seen: Vec::new() };
        loop {
            // SAFETY: the code is a whole instruction, and all places of the environment are mapped.
            match unsafe { self.cache.step(&mut engine, state, &mut view) } {
                StepOutcome::Executed => break,
                StepOutcome::Again => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(engine.rip, rip + bytes.len() as u64, "rip");
        // SAFETY: the code page is writable and has room after the instruction; the return ends the native run.
        unsafe { *self.code.add(bytes.len()) = 0xc3 };
        let mut native = Registers { rip: engine.rip, ..start };
        // SAFETY: the instruction accesses the data only, and restores nothing that Rust needs but what `native` saves.
        unsafe { run_native(&mut native, self.code, native_state) };
        native.rsp = engine.rsp;
        // SAFETY: both states are mapped.
        let (a, b) = unsafe {
            (
                std::slice::from_raw_parts(state.add(160), 256),
                std::slice::from_raw_parts(native_state.add(160), 256),
            )
        };
        assert_eq!(a, b, "vector registers differ");
        for regs in [&mut engine, &mut native] {
            regs.rflags &= FLAGS;
        }
        ((native, engine), view.seen)
    }
}

/// Calls the code with these registers and this vector state, and saves both afterwards. rsp stays the caller's.
unsafe fn run_native(regs: &mut Registers, code: *mut u8, state: *mut u8) {
    // SAFETY: all registers that the code can change are saved and restored here.
    unsafe {
        asm!(
            "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
            "push rsi", "push rdi", "push rdx",
            "mov eax, 0xe7", "xor edx, edx", "mov rcx, [rsp]", "xrstor64 [rcx]",
            "mov eax, [rdi + 136]", "and eax, 0x8d5", "push rax", "popfq",
            "mov r8, [rdi]", "mov r9, [rdi + 8]", "mov r10, [rdi + 16]", "mov r11, [rdi + 24]", "mov r12, [rdi + 32]",
            "mov r13, [rdi + 40]", "mov r14, [rdi + 48]", "mov r15, [rdi + 56]", "mov rsi, [rdi + 72]",
            "mov rbp, [rdi + 80]", "mov rbx, [rdi + 88]", "mov rdx, [rdi + 96]", "mov rax, [rdi + 104]",
            "mov rcx, [rdi + 112]", "mov rdi, [rdi + 64]",
            "call [rsp + 16]",
            "push rdi", "mov rdi, [rsp + 16]",
            "mov [rdi], r8", "mov [rdi + 8], r9", "mov [rdi + 16], r10", "mov [rdi + 24], r11", "mov [rdi + 32], r12",
            "mov [rdi + 40], r13", "mov [rdi + 48], r14", "mov [rdi + 56], r15", "mov [rdi + 72], rsi",
            "mov [rdi + 80], rbp", "mov [rdi + 88], rbx", "mov [rdi + 96], rdx", "mov [rdi + 104], rax",
            "mov [rdi + 112], rcx", "pop rax", "mov [rdi + 64], rax",
            "pushfq", "pop rax", "mov [rdi + 136], rax", "cld",
            "mov eax, 0xe7", "xor edx, edx", "mov rcx, [rsp]", "xsave64 [rcx]",
            "add rsp, 24",
            "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
            inout("rdi") regs => _, inout("rsi") code => _, inout("rdx") state => _,
            out("rax") _, out("rcx") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _,
            out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _,
            out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
}

/// Registers with the data's middle in rbx, r13 and rbp, small numbers in rcx and rsi, and mixed bits elsewhere.
fn registers(bench: &Bench, seed: u64) -> Registers {
    let mix = |n: u64| (seed ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left((n % 63) as u32);
    let middle = bench.data as u64 + MIDDLE;
    Registers {
        r8: mix(8),
        r9: mix(9),
        r10: mix(10),
        r11: mix(11),
        r12: middle,
        r13: middle,
        r14: mix(14),
        r15: mix(15),
        rdi: middle,
        rsi: middle + 256,
        rbp: middle,
        rbx: middle,
        rdx: mix(2) % 1024,
        rax: mix(1),
        rcx: mix(3) % 32,
        rsp: 0,
        rip: 0,
        rflags: mix(5) & FLAGS,
    }
}

/// The state's header for x87 and SSE control words, and random bits in the vector registers.
fn randomise_vectors(bench: &Bench, seed: u64) {
    let state = bench.states;
    // SAFETY: inside the mapping.
    unsafe {
        std::ptr::write_bytes(state, 0, STATE_BYTES);
        state.cast::<u16>().write(0x37f);
        state.add(24).cast::<u32>().write(0x1f80);
        for word in 0..32 {
            state
                .add(160 + word * 8)
                .cast::<u64>()
                .write((seed ^ word as u64).wrapping_mul(0xd134_2543_de82_ef95) >> 3);
        }
        state.add(512).cast::<u64>().write(0x3);
    }
}

use AccessKind::{Load, Modify, Store};

macro_rules! check {
    ($name:ident: $($body:expr => [$(($offset:expr, $len:expr, $kind:expr)),*]),+ $(,)?) => {
        #[test]
        fn $name() {
            let mut bench = Bench::new();
            for seed in 1..40u64 {
                $({
                    randomise_vectors(&bench, seed);
                    let start = registers(&bench, seed);
                    let body: &dyn Fn(&mut CodeAssembler) -> Result<(), iced_x86::IcedError> = &$body;
                    let seen = bench.run(start, |a| body(a).unwrap());
                    let expected: &[(i64, u32, AccessKind)] = &[$(($offset, $len, $kind)),*];
                    let expected: Vec<_> =
                        expected.iter().map(|(o, l, k)| ((MIDDLE as i64 + o) as u64, *l, *k)).collect();
                    assert_eq!(seen, expected, "seed {seed}: {}", stringify!($body));
                })+
            }
        }
    };
}

check!(moves_of_all_sizes:
    |a| a.mov(al, byte_ptr(rbx)) => [(0, 1, Load)],
    |a| a.mov(ah, byte_ptr(rbx + 3)) => [(3, 1, Load)],
    |a| a.mov(cx, word_ptr(rbx - 2)) => [(-2, 2, Load)],
    |a| a.mov(r8d, dword_ptr(r13 + 5)) => [(5, 4, Load)],
    |a| a.mov(r15, qword_ptr(rbp + 8)) => [(8, 8, Load)],
    |a| a.mov(rbx, qword_ptr(rbx)) => [(0, 8, Load)],
    |a| a.mov(byte_ptr(rbx), ch) => [(0, 1, Store)],
    |a| a.mov(dword_ptr(r12 + 100), 77) => [(100, 4, Store)],
    |a| a.mov(qword_ptr(rbx), rbx) => [(0, 8, Store)],
    |a| a.movzx(eax, byte_ptr(rbx)) => [(0, 1, Load)],
    |a| a.movsx(r9, word_ptr(rbx)) => [(0, 2, Load)],
    |a| a.movsxd(r9, dword_ptr(rbx)) => [(0, 4, Load)],
    |a| a.movbe(rax, qword_ptr(rbx)) => [(0, 8, Load)],
);

check!(arithmetic_with_flags:
    |a| a.add(qword_ptr(rbx), rax) => [(0, 8, Modify)],
    |a| a.adc(dword_ptr(rbx), r8d) => [(0, 4, Modify)],
    |a| a.sbb(r9, qword_ptr(rbx)) => [(0, 8, Load)],
    |a| a.cmp(word_ptr(rbx), ax) => [(0, 2, Load)],
    |a| a.test(byte_ptr(rbx), 0x5a) => [(0, 1, Load)],
    |a| a.inc(dword_ptr(rbx)) => [(0, 4, Modify)],
    |a| a.neg(byte_ptr(rbx)) => [(0, 1, Modify)],
    |a| a.not(qword_ptr(rbx)) => [(0, 8, Modify)],
    |a| a.shl(qword_ptr(rbx), cl) => [(0, 8, Modify)],
    |a| a.setb(byte_ptr(rbx)) => [(0, 1, Store)],
    |a| a.cmove(rax, qword_ptr(rbx)) => [(0, 8, Load)],
    |a| a.lock().xadd(qword_ptr(rbx), rax) => [(0, 8, Modify)],
    |a| a.xchg(qword_ptr(rbx), r14) => [(0, 8, Modify)],
    |a| a.lock().cmpxchg(qword_ptr(rbx), r14) => [(0, 8, Modify)],
    |a| a.crc32(eax, dword_ptr(rbx)) => [(0, 4, Load)],
    |a| a.popcnt(rax, qword_ptr(rbx)) => [(0, 8, Load)],
);

check!(without_memory:
    |a| a.add(rax, r8) => [],
    |a| a.imul_2(r8, r9) => [],
    |a| a.mul(r14) => [],
    |a| a.lea(rax, qword_ptr(rbx + rcx * 8 + 5)) => [],
    |a| a.lea(r8d, qword_ptr(rbx + rcx)) => [],
    |a| a.shr(r10, cl) => [],
    |a| a.cqo() => [],
    |a| a.bswap(r11) => [],
    |a| a.movaps(xmm3, xmm4) => [],
    |a| a.mulpd(xmm5, xmm6) => [],
);

check!(strings:
    |a| a.movsb() => [(256, 1, Load), (0, 1, Store)],
    |a| a.movsq() => [(256, 8, Load), (0, 8, Store)],
    |a| a.stosd() => [(0, 4, Store)],
    |a| a.lodsw() => [(256, 2, Load)],
    |a| a.scasb() => [(0, 1, Load)],
    |a| a.cmpsd() => [(256, 4, Load), (0, 4, Load)],
);

check!(vectors:
    |a| a.movups(xmm1, xmmword_ptr(rbx + 1)) => [(1, 16, Load)],
    |a| a.movaps(xmmword_ptr(rbx + 16), xmm7) => [(16, 16, Store)],
    |a| a.addps(xmm2, xmmword_ptr(rbx)) => [(0, 16, Load)],
    |a| a.movss(xmm9, dword_ptr(rbx)) => [(0, 4, Load)],
    |a| a.movsd_2(qword_ptr(rbx), xmm9) => [(0, 8, Store)],
    |a| a.cvtsi2sd(xmm1, qword_ptr(rbx)) => [(0, 8, Load)],
    |a| a.pshufb(xmm1, xmmword_ptr(rbx)) => [(0, 16, Load)],
    |a| a.fld(qword_ptr(rbx)) => [(0, 8, Load)],
);

#[test]
fn repeated_strings_do_each_element() {
    let mut bench = Bench::new();
    for count in [0u64, 1, 3, 31] {
        let start = Registers { rcx: count, ..registers(&bench, count) };
        let seen = bench.run(start, |a| a.rep().movsb().unwrap());
        assert_eq!(seen.len() as u64, 2 * count);
        let start = Registers { rcx: count, ..registers(&bench, count) };
        let seen = bench.run(start, |a| a.rep().stosq().unwrap());
        assert_eq!(seen.len() as u64, count);
        let start = Registers { rcx: count, ..registers(&bench, count) };
        bench.run(start, |a| a.repe().cmpsb().unwrap());
        let start = Registers { rcx: count, ..registers(&bench, count) };
        bench.run(start, |a| a.repne().scasb().unwrap());
    }
}

#[test]
fn a_bit_number_moves_the_access() {
    let mut bench = Bench::new();
    for bit in [0i64, 5, 63, 64, 1000, -1, -65] {
        let start = Registers { rax: bit as u64, ..registers(&bench, 7) };
        let seen = bench.run(start, |a| a.bts(qword_ptr(rbx), rax).unwrap());
        let offset = (MIDDLE as i64 + bit.div_euclid(64) * 8) as u64;
        assert_eq!(seen, [(offset, 8, Modify)]);
    }
}

#[test]
fn gathers_access_each_chosen_element_where_the_processor_has_avx2() {
    if !std::is_x86_feature_detected!("avx2") {
        return;
    }
    let mut bench = Bench::new();
    randomise_vectors(&bench, 3);
    // SAFETY: xmm1 holds the indices, xmm2 the mask.
    unsafe {
        let at = |register: usize| bench.states.add(160 + register * 16).cast::<u32>();
        for (index, (place, chosen)) in
            [(0u32, true), (7, false), (100, true), (3, true)].into_iter().enumerate()
        {
            at(1).add(index).write(place);
            at(2).add(index).write(if chosen { u32::MAX } else { 0 });
        }
    }
    let start = registers(&bench, 3);
    let seen = bench.run(start, |a| a.vpgatherdd_3(xmm0, dword_ptr(rbx + xmm1 * 4 + 8), xmm2).unwrap());
    let expected: Vec<_> = [0u64, 100, 3].iter().map(|i| (MIDDLE + 8 + i * 4, 4, Load)).collect();
    assert_eq!(seen, expected);
}

proptest! {
    #[test]
    fn every_form_of_address_is_computed(scale in 0u32..4, index in 0u64..64, displacement in -64i32..64, seed in 1u64..1000) {
        let mut bench = Bench::new();
        randomise_vectors(&bench, seed);
        let start = Registers { rcx: index, ..registers(&bench, seed) };
        let scale = 1i32 << scale;
        let seen = bench.run(start, |a| a.mov(rax, qword_ptr(rbx + rcx * scale + displacement)).unwrap());
        let offset = (MIDDLE as i64 + index as i64 * i64::from(scale) + i64::from(displacement)) as u64;
        prop_assert_eq!(seen, vec![(offset, 8, Load)]);
    }
}
