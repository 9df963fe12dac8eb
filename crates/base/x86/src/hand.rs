//! Instructions that are emulated by hand: branches, the stack, string instructions, lea.

use iced_x86::{Mnemonic, OpKind};
use memref::AccessKind;

use crate::cache::CodeCache;
use crate::decode::{Form, Recipe, number};
use crate::operand::{Environment, Operand, Refused, StepOutcome, Unsupported};
use crate::registers::{NONE, Registers};

const CF: u64 = 1;
const PF: u64 = 1 << 2;
const AF: u64 = 1 << 4;
const ZF: u64 = 1 << 6;
const SF: u64 = 1 << 7;
const DF: u64 = 1 << 10;
const OF: u64 = 1 << 11;
const RAX: u8 = 0;
const RCX: u8 = 1;
const RSP: u8 = 4;
const RBP: u8 = 5;
const RSI: u8 = 6;
const RDI: u8 = 7;
/// Elements of a repeated string instruction in one step.
const MAX_ELEMENTS: u32 = 4096;

/// Why a step by hand ends early.
enum EarlyEnd {
    Refused,
    Fault,
    Not,
}

impl From<Refused> for EarlyEnd {
    fn from(_: Refused) -> Self {
        Self::Refused
    }
}

impl Recipe {
    /// The address of the memory operand without its segment.
    #[inline]
    fn offset(&self, regs: &Registers) -> u64 {
        let address = &self.address;
        let mut at = address.displacement;
        if address.base != NONE {
            at = at.wrapping_add(regs.get(address.base));
        }
        if address.index != NONE {
            at = at.wrapping_add(regs.get(address.index).wrapping_mul(address.scale.into()));
        }
        if address.short { at & 0xffff_ffff } else { at }
    }

    /// The address of the memory operand.
    #[inline]
    pub(crate) fn effective<E: Environment>(&self, regs: &Registers, env: &E) -> u64 {
        let at = self.offset(regs);
        match self.address.segment {
            1 => at.wrapping_add(env.fs_base()),
            2 => at.wrapping_add(env.gs_base()),
            _ => at,
        }
    }
}

/// The flags of `a - b` for operands of that many bytes.
fn compare(flags: u64, a: u64, b: u64, bytes: u32) -> u64 {
    let bits = bytes * 8;
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let top = 1u64 << (bits - 1);
    let (a, b) = (a & mask, b & mask);
    let result = a.wrapping_sub(b) & mask;
    let mut new = flags & !(CF | PF | AF | ZF | SF | OF);
    let mut put = |flag: u64, on: bool| new |= if on { flag } else { 0 };
    put(CF, a < b);
    put(PF, (result as u8).count_ones().is_multiple_of(2));
    put(AF, (a ^ b ^ result) & 0x10 != 0);
    put(ZF, result == 0);
    put(SF, result & top != 0);
    put(OF, (a ^ b) & (a ^ result) & top != 0);
    new
}

impl CodeCache<'_> {
    /// Executes an instruction that has no stub.
    pub(crate) unsafe fn by_hand<E: Environment>(
        &mut self,
        decoded: &Recipe,
        regs: &mut Registers,
        env: &mut E,
    ) -> StepOutcome {
        // SAFETY: the promise of `step`.
        unsafe { HandStep { cache: self, decoded, regs, env }.run() }
    }
}

/// One execution of one instruction.
struct HandStep<'a, 'c, E> {
    cache: &'a mut CodeCache<'c>,
    decoded: &'a Recipe,
    regs: &'a mut Registers,
    env: &'a mut E,
}

impl<E: Environment> HandStep<'_, '_, E> {
    /// # Safety
    /// As of [`CodeCache::step`].
    unsafe fn run(&mut self) -> StepOutcome {
        // SAFETY: the promise of `step`.
        let done = unsafe {
            match self.decoded.form {
                Form::Strings => return self.strings(),
                Form::Branch(condition) => {
                    let taken = condition.holds(self.regs.rflags);
                    self.regs.rip = if taken {
                        self.decoded.instruction.near_branch64()
                    } else {
                        self.decoded.instruction.next_ip()
                    };
                    return StepOutcome::Executed;
                }
                Form::Jump => {
                    self.regs.rip = self.decoded.instruction.near_branch64();
                    return StepOutcome::Executed;
                }
                Form::CountBranch => return count_branch(self.decoded, self.regs),
                Form::Lea => {
                    let register = self.decoded.instruction.op0_register();
                    self.regs.set_sized(
                        number(register),
                        self.decoded.offset(self.regs),
                        register.size() as u32,
                    );
                    Ok(self.decoded.instruction.next_ip())
                }
                Form::Direction => {
                    if self.decoded.instruction.mnemonic() == Mnemonic::Std {
                        self.regs.rflags |= DF;
                    } else {
                        self.regs.rflags &= !DF;
                    }
                    Ok(self.decoded.instruction.next_ip())
                }
                Form::Call | Form::CallIndirect => self.call(),
                Form::JumpIndirect => self.target(),
                Form::Return => self.ret(),
                Form::Push => self.push(),
                Form::Pop => self.pop(),
                Form::Leave => self.leave(),
                _ => Err(EarlyEnd::Not),
            }
        };
        match done {
            Ok(next) => {
                self.regs.rip = next;
                StepOutcome::Executed
            }
            Err(EarlyEnd::Refused) => StepOutcome::Refused,
            Err(EarlyEnd::Fault) => StepOutcome::Fault,
            Err(EarlyEnd::Not) => StepOutcome::NotEmulated(Unsupported::Memory),
        }
    }

    unsafe fn load(&mut self, addr: u64, len: u32) -> Result<u64, EarlyEnd> {
        let place = self.env.access(Operand { addr, len, kind: AccessKind::Load })?;
        let mut value = 0u64;
        // SAFETY: the environment vouches for the place, or it faults and the copy says so.
        if unsafe { self.cache.copy(&raw mut value as u64, place, len.into()) } {
            Ok(value)
        } else {
            Err(EarlyEnd::Fault)
        }
    }

    unsafe fn store_at(&mut self, place: u64, value: u64, len: u32) -> Result<(), EarlyEnd> {
        // SAFETY: the environment vouches for the place, or it faults and the copy says so.
        if unsafe { self.cache.copy(place, &raw const value as u64, len.into()) } {
            Ok(())
        } else {
            Err(EarlyEnd::Fault)
        }
    }

    unsafe fn store(&mut self, addr: u64, value: u64, len: u32) -> Result<(), EarlyEnd> {
        let place = self.env.access(Operand { addr, len, kind: AccessKind::Store })?;
        // SAFETY: the environment vouches for the place that it names.
        unsafe { self.store_at(place, value, len) }
    }

    /// Where an indirect branch goes.
    unsafe fn target(&mut self) -> Result<u64, EarlyEnd> {
        match self.decoded.instruction.op0_kind() {
            OpKind::NearBranch64 => Ok(self.decoded.instruction.near_branch64()),
            OpKind::Register => match number(self.decoded.instruction.op0_register()) {
                NONE => Err(EarlyEnd::Not),
                register => Ok(self.regs.get(register)),
            },
            OpKind::Memory => {
                let addr = self.decoded.effective(self.regs, self.env);
                // SAFETY: the promise of `step`.
                unsafe { self.load(addr, 8) }
            }
            _ => Err(EarlyEnd::Not),
        }
    }

    unsafe fn call(&mut self) -> Result<u64, EarlyEnd> {
        // SAFETY: the promise of `step`.
        unsafe {
            let target = self.target()?;
            let sp = self.regs.rsp.wrapping_sub(8);
            self.store(sp, self.decoded.instruction.next_ip(), 8)?;
            self.regs.rsp = sp;
            Ok(target)
        }
    }

    unsafe fn ret(&mut self) -> Result<u64, EarlyEnd> {
        // SAFETY: the promise of `step`.
        let target = unsafe { self.load(self.regs.rsp, 8)? };
        let more = if self.decoded.instruction.op_count() > 0 {
            u64::from(self.decoded.instruction.immediate16())
        } else {
            0
        };
        self.regs.rsp = self.regs.rsp.wrapping_add(8 + more);
        Ok(target)
    }

    unsafe fn push(&mut self) -> Result<u64, EarlyEnd> {
        let decoded = self.decoded;
        let instruction = &decoded.instruction;
        let len = instruction.stack_pointer_increment().unsigned_abs();
        // SAFETY: the promise of `step`.
        unsafe {
            let value = match instruction.op0_kind() {
                OpKind::Register => self.regs.get(number(instruction.op0_register())),
                OpKind::Memory => {
                    let addr = self.decoded.effective(self.regs, self.env);
                    self.load(addr, len)?
                }
                _ => instruction.immediate(0),
            };
            let sp = self.regs.rsp.wrapping_sub(len.into());
            self.store(sp, value, len)?;
            self.regs.rsp = sp;
        }
        Ok(instruction.next_ip())
    }

    unsafe fn pop(&mut self) -> Result<u64, EarlyEnd> {
        let decoded = self.decoded;
        let instruction = &decoded.instruction;
        let len = instruction.stack_pointer_increment().unsigned_abs();
        // SAFETY: the promise of `step`.
        unsafe {
            let value = self.load(self.regs.rsp, len)?;
            match instruction.op0_kind() {
                OpKind::Register => {
                    self.regs.rsp = self.regs.rsp.wrapping_add(len.into());
                    self.regs.set_sized(number(instruction.op0_register()), value, len);
                }
                OpKind::Memory => {
                    // An address with rsp in it is that after the pop.
                    let mut after = *self.regs;
                    after.rsp = self.regs.rsp.wrapping_add(len.into());
                    let addr = self.decoded.effective(&after, self.env);
                    self.store(addr, value, len)?;
                    self.regs.rsp = after.rsp;
                }
                _ => return Err(EarlyEnd::Not),
            }
        }
        Ok(instruction.next_ip())
    }

    unsafe fn leave(&mut self) -> Result<u64, EarlyEnd> {
        let frame = self.regs.get(RBP);
        // SAFETY: the promise of `step`.
        let value = unsafe { self.load(frame, 8)? };
        self.regs.set(RSP, frame.wrapping_add(8));
        self.regs.set(RBP, value);
        Ok(self.decoded.instruction.next_ip())
    }

    /// A string instruction, or a part of its repetitions.
    unsafe fn strings(&mut self) -> StepOutcome {
        let decoded = self.decoded;
        let instruction = &decoded.instruction;
        let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        let next = instruction.next_ip();
        let mut left = if repeated { MAX_ELEMENTS } else { 1 };
        while left > 0 {
            if repeated && self.regs.get(RCX) == 0 {
                self.regs.rip = next;
                return StepOutcome::Executed;
            }
            // SAFETY: the promise of `step`.
            let compared = match unsafe { self.element() } {
                Ok(compared) => compared,
                // What was done before is done; the fault comes again at the next step.
                Err(_) if left < MAX_ELEMENTS && repeated => return StepOutcome::Again,
                Err(EarlyEnd::Refused) => return StepOutcome::Refused,
                Err(EarlyEnd::Fault) => return StepOutcome::Fault,
                Err(EarlyEnd::Not) => return StepOutcome::NotEmulated(Unsupported::Memory),
            };
            if !repeated {
                self.regs.rip = next;
                return StepOutcome::Executed;
            }
            self.regs.set(RCX, self.regs.get(RCX).wrapping_sub(1));
            let equal = self.regs.rflags & ZF != 0;
            if compared && equal == instruction.has_repne_prefix() {
                self.regs.rip = next;
                return StepOutcome::Executed;
            }
            left -= 1;
        }
        StepOutcome::Again
    }

    /// One element. Whether it was a comparison.
    unsafe fn element(&mut self) -> Result<bool, EarlyEnd> {
        use Mnemonic as M;
        let mnemonic = self.decoded.instruction.mnemonic();
        let len = match mnemonic {
            M::Movsb | M::Stosb | M::Lodsb | M::Scasb | M::Cmpsb => 1u32,
            M::Movsw | M::Stosw | M::Lodsw | M::Scasw | M::Cmpsw => 2,
            M::Movsd | M::Stosd | M::Lodsd | M::Scasd | M::Cmpsd => 4,
            _ => 8,
        };
        let step = if self.regs.rflags & DF != 0 { u64::from(len).wrapping_neg() } else { len.into() };
        let (source, target) = (self.regs.get(RSI), self.regs.get(RDI));
        // SAFETY: the promise of `step`.
        unsafe {
            match mnemonic {
                M::Movsb | M::Movsw | M::Movsd | M::Movsq => {
                    let value = self.load(source, len)?;
                    self.store(target, value, len)?;
                    self.regs.set(RSI, source.wrapping_add(step));
                    self.regs.set(RDI, target.wrapping_add(step));
                }
                M::Stosb | M::Stosw | M::Stosd | M::Stosq => {
                    self.store(target, self.regs.get(RAX), len)?;
                    self.regs.set(RDI, target.wrapping_add(step));
                }
                M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq => {
                    let value = self.load(source, len)?;
                    self.regs.set_sized(RAX, value, len);
                    self.regs.set(RSI, source.wrapping_add(step));
                }
                M::Scasb | M::Scasw | M::Scasd | M::Scasq => {
                    let value = self.load(target, len)?;
                    self.regs.rflags = compare(self.regs.rflags, self.regs.get(RAX), value, len);
                    self.regs.set(RDI, target.wrapping_add(step));
                    return Ok(true);
                }
                _ => {
                    let a = self.load(source, len)?;
                    let b = self.load(target, len)?;
                    self.regs.rflags = compare(self.regs.rflags, a, b, len);
                    self.regs.set(RSI, source.wrapping_add(step));
                    self.regs.set(RDI, target.wrapping_add(step));
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// jrcxz, jecxz, loop, loope, loopne.
fn count_branch(decoded: &Recipe, regs: &mut Registers) -> StepOutcome {
    let instruction = &decoded.instruction;
    let short = matches!(instruction.mnemonic(), Mnemonic::Jecxz)
        || instruction.op0_kind() == OpKind::NearBranch64 && uses_ecx(instruction);
    let mask = if short { 0xffff_ffff } else { u64::MAX };
    let zero = regs.rflags & ZF != 0;
    let taken = match instruction.mnemonic() {
        Mnemonic::Jrcxz | Mnemonic::Jecxz => regs.get(RCX) & mask == 0,
        Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne => {
            let count = regs.get(RCX).wrapping_sub(1) & mask;
            regs.set(RCX, count);
            count != 0
                && match instruction.mnemonic() {
                    Mnemonic::Loope => zero,
                    Mnemonic::Loopne => !zero,
                    _ => true,
                }
        }
        _ => return StepOutcome::NotEmulated(Unsupported::System),
    };
    regs.rip = if taken { instruction.near_branch64() } else { instruction.next_ip() };
    StepOutcome::Executed
}

/// Whether a loop counts in ecx: it has an address size prefix.
fn uses_ecx(instruction: &iced_x86::Instruction) -> bool {
    use iced_x86::Code;
    matches!(
        instruction.code(),
        Code::Loop_rel8_64_ECX | Code::Loope_rel8_64_ECX | Code::Loopne_rel8_64_ECX | Code::Jecxz_rel8_64
    )
}
