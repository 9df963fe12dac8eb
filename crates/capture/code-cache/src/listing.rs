//! A textual listing of emitted code, for tests: one instruction per line, decoded by a third-party decoder.
//!
//! Words of the traced thread's slot appear by name (`gs:[position]`), places in the listed code by
//! their distance from its start (`+0x12`), and the words that stubs jump through on lines of their own.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use buffers::flow::{GATE_AT, LAST_AT, ORDER_AT, POSITION_AT, QUIET_AT, SPILLS_AT, TARGET_AT};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind, Register};

use crate::slot::{SPILL_FS, SPILL_LINE, SPILL_RAX, SPILL_RCX, SPILL_RDX, SPILL_SCRATCH};

/// Lists code that stands at `at`.
pub(crate) fn listing(bytes: &[u8], at: u64) -> Vec<String> {
    let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
    let place = |address: u64| {
        let inside = (at..=at + bytes.len() as u64).contains(&address);
        if inside { format!("{:+#x}", address - at) } else { format!("{address:#x}") }
    };
    let mut lines = Vec::new();
    let mut words = Vec::new();
    while decoder.can_decode() {
        if words.contains(&decoder.ip()) {
            let from = decoder.position();
            let word = u64::from_le_bytes(bytes[from..from + 8].try_into().expect("a word"));
            lines.push(format!("dq {}", place(word)));
            decoder.set_position(from + 8).expect("it is inside");
            decoder.set_ip(at + from as u64 + 8);
            continue;
        }
        let instruction = decoder.decode();
        assert!(!instruction.is_invalid(), "at {} after {lines:#?}", place(instruction.ip()));
        let trap = instruction.memory_displacement64().wrapping_sub(at) as usize;
        let is_ahead = instruction.memory_displacement64() > instruction.ip();
        if instruction.memory_base() == Register::RIP && is_ahead && bytes.get(trap) != Some(&0xcc) {
            words.push(instruction.memory_displacement64());
        }
        lines.push(text(&instruction, &place));
    }
    lines
}

fn text(instruction: &Instruction, place: &impl Fn(u64) -> String) -> String {
    let mut line = format!("{:?}", instruction.mnemonic()).to_lowercase();
    if instruction.has_lock_prefix() {
        line.insert_str(0, "lock ");
    }
    if instruction.has_rep_prefix() {
        line.insert_str(0, "rep ");
    }
    // What string instructions access is not written.
    if instruction.code() == Code::Stosb_m8_AL || instruction.code() == Code::Movsb_m8_m8 {
        return line;
    }
    for operand in 0..instruction.op_count() {
        line.push_str(if operand == 0 { " " } else { ", " });
        line.push_str(&match instruction.op_kind(operand) {
            OpKind::Register => register(instruction.op_register(operand)),
            OpKind::NearBranch64 => place(instruction.near_branch_target()),
            OpKind::Memory => memory(instruction, place),
            _ => format!("{:#x}", instruction.immediate(operand)),
        });
    }
    line
}

fn register(register: Register) -> String {
    format!("{register:?}").to_lowercase()
}

fn memory(instruction: &Instruction, place: &impl Fn(u64) -> String) -> String {
    let displacement = instruction.memory_displacement64();
    let segment = instruction.segment_prefix();
    let size = match instruction.memory_size().size() {
        _ if matches!(instruction.code(), Code::Lea_r64_m | Code::Lea_r32_m) => "",
        1 => "byte ",
        2 => "word ",
        4 => "dword ",
        8 => "",
        _ => "wide ",
    };
    if instruction.memory_base() == Register::RIP {
        return format!("{size}[{}]", place(displacement));
    }
    let mut parts = Vec::new();
    if instruction.memory_base() != Register::None {
        parts.push(register(instruction.memory_base()));
    }
    if instruction.memory_index() != Register::None {
        let scale = instruction.memory_index_scale();
        let index = register(instruction.memory_index());
        parts.push(if scale == 1 { index } else { format!("{index}*{scale}") });
    }
    let mut inner = parts.join(" + ");
    if parts.is_empty() && segment == Register::GS {
        inner = slot_word(displacement as u32);
    } else if parts.is_empty() {
        inner = format!("{displacement:#x}");
    } else if (displacement as i64) < 0 {
        inner.push_str(&format!(" - {:#x}", displacement.wrapping_neg()));
    } else if displacement > 0 {
        inner.push_str(&format!(" + {displacement:#x}"));
    }
    let prefix = if segment == Register::None { String::new() } else { format!("{}:", register(segment)) };
    format!("{size}{prefix}[{inner}]")
}

/// The name of a word of the thread's slot.
fn slot_word(offset: u32) -> String {
    let name = match offset {
        POSITION_AT => "position",
        QUIET_AT => "quiet",
        TARGET_AT => "target",
        GATE_AT => "gate",
        ORDER_AT => "order",
        LAST_AT => "last",
        SPILL_SCRATCH => "spill",
        SPILL_RAX => "spill_rax",
        SPILL_RCX => "spill_rcx",
        SPILL_RDX => "spill_rdx",
        SPILL_LINE => "spill_2",
        SPILL_FS => "fs_base",
        _ if offset == SPILL_LINE + 1 => "spill_2 + 1",
        _ if offset >= SPILLS_AT => return format!("spills + {}", offset - SPILLS_AT),
        _ => return offset.to_string(),
    };
    name.to_string()
}
