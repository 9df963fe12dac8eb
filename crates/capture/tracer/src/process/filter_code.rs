//! What a filter of system calls (seccomp(2), mode filter) says to a call: its classic BPF, evaluated as the kernel does it.
//!
//! A filter sees the number of a call, the architecture, the instruction's address and six arguments, and returns an action. It has no loops
//! and no memory but sixteen words of its own, so it ends after as many steps as it has instructions.

use core::mem::offset_of;

/// An instruction: `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    /// How many instructions a branch skips where its condition holds, and where it does not.
    pub(crate) jt: u8,
    pub(crate) jf: u8,
    pub(crate) k: u32,
}

impl Instruction {
    pub(crate) const BYTES: u64 = size_of::<Self>() as u64;

    /// As it lies in memory.
    pub(crate) fn from_word(word: u64) -> Self {
        let [c0, c1, jt, jf, k @ ..] = word.to_le_bytes();
        Self { code: u16::from_le_bytes([c0, c1]), jt, jf, k: u32::from_le_bytes(k) }
    }
}

/// A call as a filter sees it: `struct seccomp_data`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) number: u32,
    pub(crate) arch: u32,
    pub(crate) ip: u64,
    pub(crate) args: [u64; 6],
}

/// AUDIT_ARCH_X86_64.
const ARCH: u32 = 0xc000_003e;
/// The longest filter: BPF_MAXINSNS.
pub(crate) const MAX_LEN: u16 = 4096;

impl Call {
    pub(crate) fn new(number: libc::c_long, ip: u64, args: [u64; 6]) -> Self {
        Self { number: number as u32, arch: ARCH, ip, args }
    }

    /// The 32 bits at an offset; `None` where the kernel would have refused the filter.
    fn load(&self, offset: u32) -> Option<u32> {
        const ARGS: usize = offset_of!(Call, args);
        let word = |value: u64, high: bool| (value >> if high { 32 } else { 0 }) as u32;
        let at = offset as usize;
        if !at.is_multiple_of(4) {
            return None;
        }
        match at {
            0 => Some(self.number),
            4 => Some(self.arch),
            8 | 12 => Some(word(self.ip, at == 12)),
            ARGS.. => self.args.get((at - ARGS) / 8).map(|&arg| word(arg, !(at - ARGS).is_multiple_of(8))),
            _ => None,
        }
    }
}

// Parts of an instruction's code (linux/bpf_common.h).
const CLASS: u16 = 0x07;
const LD: u16 = 0x00;
const LDX: u16 = 0x01;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ALU: u16 = 0x04;
const JMP: u16 = 0x05;
const RET: u16 = 0x06;
const MISC: u16 = 0x07;
const MODE: u16 = 0xe0;
const IMM: u16 = 0x00;
const ABS: u16 = 0x20;
const MEM: u16 = 0x60;
const LEN: u16 = 0x80;
const OPERATION: u16 = 0xf0;
/// The operand is the index register, and not the constant.
const X: u16 = 0x08;
/// What RET returns is the accumulator.
const RET_A: u16 = 0x10;
const TXA: u16 = 0x80;

/// The action for a call, and 16 bits of data below it; `None`: it is no filter that the kernel takes. `instruction` gives that of an index.
pub(crate) fn action(call: &Call, instruction: impl Fn(u32) -> Option<Instruction>) -> Option<u32> {
    let (mut a, mut x) = (0_u32, 0_u32);
    let mut words = [0_u32; 16];
    let mut at = 0_u32;
    loop {
        let Instruction { code, jt, jf, k } = instruction(at)?;
        at = at.checked_add(1)?;
        let operand = if code & X != 0 { x } else { k };
        match code & CLASS {
            LD => a = loaded(call, code, k, &words)?,
            LDX => x = if code & MODE == ABS { return None } else { loaded(call, code, k, &words)? },
            ST => *words.get_mut(k as usize)? = a,
            STX => *words.get_mut(k as usize)? = x,
            // The kernel ends a filter that divides by zero with what kills.
            ALU if code & OPERATION == 0x30 && operand == 0 => return Some(libc::SECCOMP_RET_KILL_THREAD),
            ALU => a = computed(code, a, operand)?,
            JMP => {
                let holds = match code & OPERATION {
                    0x00 => {
                        at = at.checked_add(k)?;
                        continue;
                    }
                    0x10 => a == operand,
                    0x20 => a > operand,
                    0x30 => a >= operand,
                    0x40 => a & operand != 0,
                    _ => return None,
                };
                at = at.checked_add(if holds { jt } else { jf }.into())?;
            }
            RET => return Some(if code & RET_A != 0 { a } else { k }),
            MISC if code & TXA != 0 => a = x,
            MISC => x = a,
            _ => return None,
        }
    }
}

fn loaded(call: &Call, code: u16, k: u32, words: &[u32; 16]) -> Option<u32> {
    match code & MODE {
        IMM => Some(k),
        ABS => call.load(k),
        MEM => words.get(k as usize).copied(),
        LEN => Some(size_of::<Call>() as u32),
        _ => None,
    }
}

fn computed(code: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match code & OPERATION {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand)?,
        0x40 => a | operand,
        0x50 => a & operand,
        0x60 => a.wrapping_shl(operand),
        0x70 => a.wrapping_shr(operand),
        0x80 => a.wrapping_neg(),
        0xa0 => a ^ operand,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tracee::sys;

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const ERRNO: u32 = libc::SECCOMP_RET_ERRNO;

    fn insn(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
        Instruction { code, jt, jf, k }
    }

    #[test]
    fn what_divides_by_zero_kills() {
        let filter = [insn(LD | IMM, 0, 0, 5), insn(ALU | 0x30 | X, 0, 0, 0), insn(RET, 0, 0, ALLOW)];
        let call = Call::new(0, 0, [0; 6]);
        assert_eq!(action(&call, |at| filter.get(at as usize).copied()), Some(libc::SECCOMP_RET_KILL_THREAD));
    }

    /// One step that the kernel takes: loads of any field, words of its own, arithmetic, and branches ahead that stay inside.
    fn step() -> impl Strategy<Value = Instruction> {
        let field = (0_u32..16).prop_map(|n| n * 4);
        let value = prop_oneof![0_u32..4, any::<u32>()];
        prop_oneof![
            3 => field.prop_map(|k| insn(LD | ABS, 0, 0, k)),
            1 => value.clone().prop_map(|k| insn(LD | IMM, 0, 0, k)),
            1 => value.clone().prop_map(|k| insn(LDX | IMM, 0, 0, k)),
            1 => Just(insn(LD | LEN, 0, 0, 0)),
            1 => Just(insn(LDX | LEN, 0, 0, 0)),
            // The kernel refuses loads of words that nobody stored; the first four are (see `filter`).
            1 => (0_u32..4).prop_map(|k| insn(LD | MEM, 0, 0, k)),
            1 => (0_u32..4).prop_map(|k| insn(LDX | MEM, 0, 0, k)),
            1 => (0_u32..4).prop_map(|k| insn(ST, 0, 0, k)),
            1 => (0_u32..4).prop_map(|k| insn(STX, 0, 0, k)),
            4 => (prop::sample::select(vec![0x00, 0x10, 0x20, 0x40, 0x50, 0x80, 0xa0]), any::<bool>(), value.clone())
                .prop_map(|(op, by_x, k)| insn(ALU | op | if by_x && op != 0x80 { X } else { 0 }, 0, 0, k)),
            1 => (prop::sample::select(vec![0x60, 0x70]), 0_u32..32).prop_map(|(op, k)| insn(ALU | op, 0, 0, k)),
            1 => (1_u32..9).prop_map(|k| insn(ALU | 0x30, 0, 0, k)),
            1 => Just(insn(MISC, 0, 0, 0)),
            1 => Just(insn(MISC | TXA, 0, 0, 0)),
            3 => (prop::sample::select(vec![0x10, 0x20, 0x30, 0x40]), any::<bool>(), value, 0_u8..3, 0_u8..3)
                .prop_map(|(op, by_x, k, jt, jf)| insn(JMP | op | if by_x { X } else { 0 }, jt, jf, k)),
            1 => (0_u32..3).prop_map(|k| insn(JMP, 0, 0, k)),
        ]
    }

    /// A filter that allows all calls but `number`, whose error is what the steps have left in the accumulator.
    fn filter(number: u32, steps: &[Instruction]) -> Vec<Instruction> {
        let mut all = vec![insn(LD | ABS, 0, 0, 0), insn(JMP | 0x10, 1, 0, number), insn(RET, 0, 0, ALLOW)];
        all.extend((0..4).map(|word| insn(ST, 0, 0, word)));
        all.push(insn(LDX | IMM, 0, 0, 0));
        all.extend(steps);
        // Where the last branches lead to.
        all.extend([insn(ALU | 0xa0, 0, 0, 0x55); 3]);
        all.push(insn(ALU | 0x50, 0, 0, 0xfff));
        all.push(insn(ALU | 0x40, 0, 0, ERRNO));
        all.push(insn(RET | RET_A, 0, 0, 0));
        all
    }

    /// What the kernel says to a call in a child that has installed a filter: the error; `None`: it did not take the filter.
    fn by_kernel(filter: &[Instruction], number: libc::c_long, args: [usize; 6]) -> Option<u32> {
        let program =
            libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr() as *mut libc::sock_filter };
        let mut pipe = [0; 2];
        // SAFETY: the child calls the kernel alone, and ends.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let child = libc::fork();
            if child == 0 {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                let taken = libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program) == 0;
                let result = if taken { sys::syscall(number as usize, args) } else { 1 };
                libc::write(pipe[1], (&raw const result).cast(), 8);
                libc::_exit(0);
            }
            let mut result = 0_isize;
            assert_eq!(libc::read(pipe[0], (&raw mut result).cast(), 8), 8);
            libc::waitpid(child, core::ptr::null_mut(), 0);
            libc::close(pipe[0]);
            libc::close(pipe[1]);
            (result <= 0).then(|| (-result) as u32)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn a_filter_says_what_the_kernel_takes_it_to_say(
            steps in prop::collection::vec(step(), 0..24),
            args in any::<[u64; 6]>(),
        ) {
            // A call that has no effect, whatever its arguments are.
            let number = libc::SYS_getppid;
            let filter = filter(number as u32, &steps);
            if let Some(said) = by_kernel(&filter, number, args.map(|arg| arg as usize)) {
                // The address of the instruction is not known here.
                let reads_ip = steps.iter().any(|step| step.code == LD | ABS && matches!(step.k, 8 | 12));
                let ours = action(&Call::new(number, 0, args), |at| filter.get(at as usize).copied());
                // The kernel takes no error above 4095.
                prop_assert!(reads_ip || ours == Some(ERRNO | said), "{ours:x?} {said:x}");
                let other = Call::new(libc::SYS_getpid, 0, args);
                prop_assert_eq!(action(&other, |at| filter.get(at as usize).copied()), Some(ALLOW));
            } else {
                prop_assert!(false, "the kernel refuses {:?}", filter);
            }
        }

        #[test]
        fn any_bytes_end(words in prop::collection::vec(any::<u64>(), 0..64), number in 0_i64..400) {
            let filter: Vec<_> = words.iter().map(|&word| Instruction::from_word(word)).collect();
            action(&Call::new(number, 0, [0; 6]), |at| filter.get(at as usize).copied());
        }
    }
}
