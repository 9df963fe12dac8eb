//! The verdict of a system call filter (seccomp(2), mode filter) on a call: evaluates its classic BPF code as the kernel does.
//!
//! A filter sees the number of a call, the architecture, the instruction's address and six arguments, and returns an action. It
//! has no loops and no memory except sixteen words of its own, so it ends after at most as many steps as it has instructions.

use core::mem::offset_of;

use libc::{
    BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_DIV, BPF_IMM, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP,
    BPF_JSET, BPF_LD, BPF_LDX, BPF_LEN, BPF_LSH, BPF_MEM, BPF_MEMWORDS, BPF_MISC, BPF_MUL, BPF_NEG, BPF_OR,
    BPF_RET, BPF_RSH, BPF_ST, BPF_STX, BPF_SUB, BPF_TXA, BPF_X, BPF_XOR, seccomp_data, sock_filter,
};

/// AUDIT_ARCH_X86_64.
const ARCH: u32 = 0xc000_003e;

// Parts of an instruction's code.
const CLASS: u32 = 0x07;
const MODE: u32 = 0xe0;
const OPERATION: u32 = 0xf0;

/// A call as a filter sees it.
pub(crate) fn call(number: libc::c_long, ip: u64, args: [u64; 6]) -> seccomp_data {
    seccomp_data { nr: number as i32, arch: ARCH, instruction_pointer: ip, args }
}

/// The action for a call, and 16 bits of data below it; `None`: it is no filter that the kernel takes. `instruction` gives that of an index.
pub(crate) fn action(call: &seccomp_data, instruction: impl Fn(u32) -> Option<sock_filter>) -> Option<u32> {
    let (mut a, mut x) = (0_u32, 0_u32);
    let mut words = [0_u32; BPF_MEMWORDS as usize];
    let mut at = 0_u32;
    loop {
        let sock_filter { code, jt, jf, k } = instruction(at)?;
        let code = u32::from(code);
        at = at.checked_add(1)?;
        let operand = if code & BPF_X != 0 { x } else { k };
        match code & CLASS {
            BPF_LD => a = loaded(call, code, k, &words)?,
            BPF_LDX if code & MODE == BPF_ABS => return None,
            BPF_LDX => x = loaded(call, code, k, &words)?,
            BPF_ST => *words.get_mut(k as usize)? = a,
            BPF_STX => *words.get_mut(k as usize)? = x,
            // The kernel ends a filter that divides by zero with what kills.
            BPF_ALU if code & OPERATION == BPF_DIV && operand == 0 => {
                return Some(libc::SECCOMP_RET_KILL_THREAD);
            }
            BPF_ALU => a = computed(code, a, operand)?,
            BPF_JMP => {
                let skipped = match code & OPERATION {
                    BPF_JA => k,
                    BPF_JEQ => chosen(a == operand, jt, jf),
                    BPF_JGT => chosen(a > operand, jt, jf),
                    BPF_JGE => chosen(a >= operand, jt, jf),
                    BPF_JSET => chosen(a & operand != 0, jt, jf),
                    _ => return None,
                };
                at = at.checked_add(skipped)?;
            }
            BPF_RET => return Some(if code & BPF_A != 0 { a } else { k }),
            BPF_MISC if code & BPF_TXA != 0 => a = x,
            BPF_MISC => x = a,
            _ => return None,
        }
    }
}

/// How many instructions a branch skips.
fn chosen(holds: bool, jt: u8, jf: u8) -> u32 {
    if holds { jt } else { jf }.into()
}

fn loaded(call: &seccomp_data, code: u32, k: u32, words: &[u32]) -> Option<u32> {
    match code & MODE {
        BPF_IMM => Some(k),
        BPF_ABS => field(call, k),
        BPF_MEM => words.get(k as usize).copied(),
        BPF_LEN => Some(size_of::<seccomp_data>() as u32),
        _ => None,
    }
}

/// The 32 bits of a call at an offset; `None` where the kernel would have refused the filter.
fn field(call: &seccomp_data, offset: u32) -> Option<u32> {
    const ARGS: usize = offset_of!(seccomp_data, args);
    let word = |value: u64, high: bool| (value >> if high { 32 } else { 0 }) as u32;
    let at = offset as usize;
    if !at.is_multiple_of(4) {
        return None;
    }
    match at {
        0 => Some(call.nr as u32),
        4 => Some(call.arch),
        8 | 12 => Some(word(call.instruction_pointer, at == 12)),
        ARGS.. => call.args.get((at - ARGS) / 8).map(|&arg| word(arg, !(at - ARGS).is_multiple_of(8))),
        _ => None,
    }
}

fn computed(code: u32, a: u32, operand: u32) -> Option<u32> {
    Some(match code & OPERATION {
        BPF_ADD => a.wrapping_add(operand),
        BPF_SUB => a.wrapping_sub(operand),
        BPF_MUL => a.wrapping_mul(operand),
        BPF_DIV => a.checked_div(operand)?,
        BPF_OR => a | operand,
        BPF_AND => a & operand,
        BPF_LSH => a.wrapping_shl(operand),
        BPF_RSH => a.wrapping_shr(operand),
        BPF_NEG => a.wrapping_neg(),
        BPF_XOR => a ^ operand,
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

    fn insn(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
        sock_filter { code: code as u16, jt, jf, k }
    }

    #[test]
    fn what_divides_by_zero_kills() {
        let filter = [
            insn(BPF_LD | BPF_IMM, 0, 0, 5),
            insn(BPF_ALU | BPF_DIV | BPF_X, 0, 0, 0),
            insn(BPF_RET, 0, 0, ALLOW),
        ];
        let call = call(0, 0, [0; 6]);
        assert_eq!(action(&call, |at| filter.get(at as usize).copied()), Some(libc::SECCOMP_RET_KILL_THREAD));
    }

    /// One step that the kernel takes: loads of any field, words of its own, arithmetic, and branches ahead that stay inside.
    fn step() -> impl Strategy<Value = sock_filter> {
        let field = (0_u32..16).prop_map(|n| n * 4);
        let value = prop_oneof![0_u32..4, any::<u32>()];
        prop_oneof![
            3 => field.prop_map(|k| insn(BPF_LD | BPF_ABS, 0, 0, k)),
            1 => value.clone().prop_map(|k| insn(BPF_LD | BPF_IMM, 0, 0, k)),
            1 => value.clone().prop_map(|k| insn(BPF_LDX | BPF_IMM, 0, 0, k)),
            1 => Just(insn(BPF_LD | BPF_LEN, 0, 0, 0)),
            1 => Just(insn(BPF_LDX | BPF_LEN, 0, 0, 0)),
            // The kernel refuses loads of words that nobody stored; the first four are (see `filter`).
            1 => (0_u32..4).prop_map(|k| insn(BPF_LD | BPF_MEM, 0, 0, k)),
            1 => (0_u32..4).prop_map(|k| insn(BPF_LDX | BPF_MEM, 0, 0, k)),
            1 => (0_u32..4).prop_map(|k| insn(BPF_ST, 0, 0, k)),
            1 => (0_u32..4).prop_map(|k| insn(BPF_STX, 0, 0, k)),
            4 => (prop::sample::select(vec![BPF_ADD, BPF_SUB, BPF_MUL, BPF_OR, BPF_AND, BPF_NEG, BPF_XOR]), any::<bool>(), value.clone())
                .prop_map(|(op, by_x, k)| insn(BPF_ALU | op | if by_x && op != BPF_NEG { BPF_X } else { 0 }, 0, 0, k)),
            1 => (prop::sample::select(vec![BPF_LSH, BPF_RSH]), 0_u32..32).prop_map(|(op, k)| insn(BPF_ALU | op, 0, 0, k)),
            1 => (1_u32..9).prop_map(|k| insn(BPF_ALU | BPF_DIV, 0, 0, k)),
            1 => Just(insn(BPF_MISC, 0, 0, 0)),
            1 => Just(insn(BPF_MISC | BPF_TXA, 0, 0, 0)),
            3 => (prop::sample::select(vec![BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET]), any::<bool>(), value, 0_u8..3, 0_u8..3)
                .prop_map(|(op, by_x, k, jt, jf)| insn(BPF_JMP | op | if by_x { BPF_X } else { 0 }, jt, jf, k)),
            1 => (0_u32..3).prop_map(|k| insn(BPF_JMP, 0, 0, k)),
        ]
    }

    /// A filter that allows all calls but `number`, whose error is what the steps have left in the accumulator.
    fn filter(number: u32, steps: &[sock_filter]) -> Vec<sock_filter> {
        let mut all = vec![
            insn(BPF_LD | BPF_ABS, 0, 0, 0),
            insn(BPF_JMP | BPF_JEQ, 1, 0, number),
            insn(BPF_RET, 0, 0, ALLOW),
        ];
        all.extend((0..4).map(|word| insn(BPF_ST, 0, 0, word)));
        all.push(insn(BPF_LDX | BPF_IMM, 0, 0, 0));
        all.extend(steps);
        // Where the last branches lead to.
        all.extend([insn(BPF_ALU | BPF_XOR, 0, 0, 0x55); 3]);
        all.push(insn(BPF_ALU | BPF_AND, 0, 0, 0xfff));
        all.push(insn(BPF_ALU | BPF_OR, 0, 0, ERRNO));
        all.push(insn(BPF_RET | BPF_A, 0, 0, 0));
        all
    }

    /// What the kernel says to a call in a child that has installed a filter: the error; `None`: it did not take the filter.
    fn by_kernel(filter: &[sock_filter], number: libc::c_long, args: [usize; 6]) -> Option<u32> {
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
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
                let reads_ip = steps.iter().any(|step| u32::from(step.code) == BPF_LD | BPF_ABS && matches!(step.k, 8 | 12));
                let ours = action(&call(number, 0, args), |at| filter.get(at as usize).copied());
                // The kernel takes no error above 4095.
                prop_assert!(reads_ip || ours == Some(ERRNO | said), "{ours:x?} {said:x}");
                let other = call(libc::SYS_getpid, 0, args);
                prop_assert_eq!(action(&other, |at| filter.get(at as usize).copied()), Some(ALLOW));
            } else {
                prop_assert!(false, "the kernel refuses {:?}", filter);
            }
        }

        #[test]
        fn any_bytes_end(words in prop::collection::vec(any::<u64>(), 0..64), number in 0_i64..400) {
            let split = |word: u64| insn(word as u32 >> 16, word as u8, (word >> 8) as u8, (word >> 32) as u32);
            let filter: Vec<_> = words.into_iter().map(split).collect();
            action(&call(number, 0, [0; 6]), |at| filter.get(at as usize).copied());
        }
    }
}
