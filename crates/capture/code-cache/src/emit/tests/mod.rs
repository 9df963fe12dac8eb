//! Emits every form of block, decodes it and compares it with the expectation, instruction by instruction.
//!
//! Expectations leave out what all blocks share: the entry before the code, and the
//! exit stubs after it, which are compared with the form of a stub ([`without_stubs`]).

mod accesses;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use blocks::MAX_INSTRUCTIONS;

use super::*;
use crate::listing::listing;
use crate::marks::Marks;
use crate::mode::{Flow, Task};

/// A program that is linked low, and one whose return addresses are no 32 bits.
const LOW: u64 = 0x40_0000;
const HIGH: u64 = 0x7f00_0040_0000;
const CACHE: u64 = 0x3000_0000;
const CHECK: Task = Task::Check(Marks::UNMAPPED);

/// What is emitted for the program's code `bytes`.
struct Form<'a> {
    bytes: &'a [u8],
    at: u64,
    mode: Mode,
    task: Task,
    is_own: bool,
    rotates: bool,
}

/// A block that records addresses.
fn recorded(bytes: &[u8]) -> Form<'_> {
    Form { bytes, at: LOW, mode: Mode::Record, task: Task::Addresses, is_own: false, rotates: true }
}

/// A block that neither records nor counts: the program's own instructions, and what stands for them.
fn quiet(bytes: &[u8]) -> Form<'_> {
    Form { mode: Mode::Quiet, ..recorded(bytes) }
}

/// Surroundings of a block of the program at that address.
fn around(addr: u64) -> Around {
    Around {
        mode: Mode::Record,
        id: 0x20,
        at: addr - 0x10_0000,
        ways: 0x7e40_1010,
        way_numbers: 0x7e48_1010,
        next_link: 7,
        is_own: false,
        next_site: 3,
        marks: None,
        rotates: true,
    }
}

impl Form<'_> {
    /// All lines, with the distances in them counted from the code's first byte in the cache.
    fn lines(&self) -> Vec<String> {
        let bytes = [self.bytes, &[0x90; 16]].concat();
        let task = (self.mode == Mode::Record).then_some(self.task);
        let planned = Plan::new(None, self.at, &bytes, MAX_INSTRUCTIONS, (task, Flow::Accesses), |_| false);
        let mut plan = planned.expect("it is code");
        if self.is_own {
            plan.make_special();
        }
        let around = Around {
            mode: self.mode,
            is_own: self.is_own,
            marks: matches!(self.task, Task::Check(_)).then_some(0x5000_0000),
            rotates: self.rotates,
            ..around(self.at)
        };
        let emitted = emit(&plan, &around).expect("nothing is far away");
        listing(emitted.code.bytes(), around.at)
    }

    /// Compares the lines between the entry and the exit stubs.
    fn check(&self, expect: &str) {
        let lines = without_stubs(self.lines());
        let entry = lines.iter().position(|line| line == "mov rdx, gs:[spill_rdx]").expect("an entry");
        assert!(lines[..entry].iter().all(|line| line == "nop"));
        let expect: Vec<&str> = expect.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(lines[entry + 1..], expect, "{:x?}:\n{}", self.bytes, lines[entry + 1..].join("\n"));
    }
}

/// Takes the exit stubs off the end: each jumps through a word that says where it leaves the cache, and names its link.
fn without_stubs(mut lines: Vec<String>) -> Vec<String> {
    let is_stub = |line: &String| line.starts_with("jmp [+");
    let mut number = 0;
    while let Some(first) = lines.iter().position(is_stub) {
        let reason = format!("mov eax, {:#x}", 7 + number);
        let stub: Vec<String> = lines.drain(first..first + 5).collect();
        assert!(stub[1].starts_with("dq +"));
        assert_eq!(stub[2..], ["mov gs:[spill_rax], rax", &reason, "jmp gs:[gate]"]);
        // They are aligned.
        let nops = lines[..first].iter().rev().take_while(|line| *line == "nop").count();
        lines.drain(first - nops..first);
        number += 1;
    }
    lines
}

/// The listing at the head of the module is what is emitted.
#[test]
fn the_listing_at_the_head_is_true() {
    let code = [0x48, 0x8b, 0x0e, 0x85, 0xc0, 0x75, 16, 0x49, 0x8b, 0x00, 0xc3];
    let head = include_str!("../mod.rs").split("```").nth(1).expect("a listing").lines().skip(1);
    let mut expect = vec![];
    for line in head {
        let line = line.trim_start_matches("//!").trim_start_matches(" .");
        let line = line.split(';').next().unwrap_or("").trim();
        match line {
            "nop (7)" => expect.extend(["nop"; 7].map(ToString::to_string)),
            "nop (6)" => expect.extend(["nop"; 6].map(ToString::to_string)),
            line if line.is_empty() || line.ends_with(':') => {}
            line => expect.push(line.to_string()),
        }
    }
    assert_eq!(recorded(&code).lines(), expect);
}

/// Values are stored after the position by a register that nobody needs; where one is set before it is used, it is not loaded again.
#[test]
fn values_go_after_the_position() {
    // mov rax, [rdi + 8]; add [rsi], rax; jmp
    recorded(&[0x48, 0x8b, 0x47, 8, 0x48, 0x01, 0x06, 0xeb, 0xf0]).check(
        "
        mov gs:[spill], rcx
        mov rcx, gs:[position]
        mov [rcx + 0x8], rdi
        mov rax, [rdi + 0x8]
        mov [rcx + 0x10], rsi
        mov [rcx], 0x20
        mov gs:[last], rcx
        lea rcx, [rcx + 0x18]
        mov gs:[position], rcx
        mov rcx, gs:[spill]
        add [rsi], rax
        jmp +0x62",
    );
    // all general registers are needed, in two stretches: mov rax, [rax], and so on
    recorded(&ALL_REGISTERS).check(
        "
        mov gs:[spill], r15
        mov r15, gs:[position]
        mov [r15 + 0x8], rax
        mov rax, [rax]
        mov [r15 + 0x10], rcx
        mov rcx, [rcx]
        mov [r15 + 0x18], rdx
        mov rdx, [rdx]
        mov [r15 + 0x20], rbx
        mov rbx, [rbx]
        mov [r15 + 0x28], rbp
        mov rbp, [rbp]
        mov [r15 + 0x30], rsi
        mov rsi, [rsi]
        mov [r15 + 0x38], rdi
        mov rdi, [rdi]
        mov [r15 + 0x40], r8
        mov r8, [r8]
        mov [r15 + 0x48], r9
        mov r9, [r9]
        mov [r15 + 0x50], r10
        mov r10, [r10]
        mov [r15 + 0x58], r11
        mov r11, [r11]
        mov [r15 + 0x60], r12
        mov r12, [r12]
        mov [r15 + 0x68], r13
        mov r13, [r13]
        mov [r15 + 0x70], r14
        mov r15, gs:[spill]
        mov r14, [r14]
        mov gs:[spill], rax
        mov rax, gs:[position]
        mov [rax + 0x78], r15
        mov [rax], 0x20
        mov gs:[last], rax
        lea rax, [rax + 0x80]
        mov gs:[position], rax
        mov rax, gs:[spill]
        mov r15, [r15]
        jmp +0xda",
    );
    // what is relative to rip is still the same address: mov rax, [rip + 0x100]; jmp
    recorded(&[0x48, 0x8b, 0x05, 0, 1, 0, 0, 0xeb, 0xf0]).check(
        "
        mov gs:[spill], rax
        mov rax, gs:[position]
        mov [rax], 0x20
        mov gs:[last], rax
        lea rax, [rax + 0x8]
        mov gs:[position], rax
        mov rax, [0x400107]
        jmp +0x52",
    );
    // rep movsb keeps its registers before and after
    recorded(&[0xf3, 0xa4]).check(
        "
        mov gs:[spill], rax
        mov rax, gs:[position]
        mov [rax + 0x8], rsi
        mov [rax + 0x10], rdi
        mov [rax + 0x18], rcx
        rep movsb
        mov [rax + 0x20], rsi
        mov [rax + 0x28], rdi
        mov [rax + 0x30], rcx
        mov [rax], 0x20
        mov gs:[last], rax
        lea rax, [rax + 0x38]
        mov gs:[position], rax
        mov rax, gs:[spill]
        jmp +0x6a",
    );
}

/// Without accesses: in the last header, or apart inside a function that is one event.
#[test]
fn instructions_are_counted() {
    // mov eax, ebx; je: the flags are needed
    recorded(&[0x89, 0xd8, 0x74, 0xf0]).check(
        "
        mov gs:[spill], rax
        mov gs:[spill_2], rcx
        mov rax, gs:[last]
        mov rcx, [rax]
        lea rcx, [rcx + 0x800000]
        mov [rax], rcx
        mov rcx, gs:[spill_2]
        mov rax, gs:[spill]
        mov eax, ebx
        je +0x5a
        jmp +0x82",
    );
    // add eax, ebx; je: they are not
    recorded(&[0x01, 0xd8, 0x74, 0xf0]).check(
        "
        mov gs:[spill], rax
        mov rax, gs:[last]
        add [rax], 0x800000
        mov rax, gs:[spill]
        add eax, ebx
        je +0x42
        jmp +0x6a",
    );
    Form { mode: Mode::Silent, ..recorded(&[0x89, 0xd8, 0x74, 0xf0]) }.check(
        "
        mov gs:[spill], rax
        mov rax, gs:[quiet]
        lea rax, [rax + 0x2]
        mov gs:[quiet], rax
        mov rax, gs:[spill]
        mov eax, ebx
        je +0x4a
        jmp +0x72",
    );
    Form { mode: Mode::Silent, ..recorded(&[0x01, 0xd8, 0x74, 0xf0]) }.check(
        "
        add gs:[quiet], 0x2
        add eax, ebx
        je +0x2a
        jmp +0x52",
    );
}

#[test]
fn side_exits_make_shorter_blocks() {
    // test eax, eax; jne; mov rax, [rsi]; ret: nothing was accessed before
    recorded(&[0x85, 0xc0, 0x75, 16, 0x48, 0x8b, 0x06, 0xc3]).check(
        "
        test eax, eax
        jne +0x81
        mov gs:[spill], rcx
        mov rcx, gs:[position]
        mov [rcx + 0x8], rsi
        mov rax, [rsi]
        mov [rcx + 0x10], rsp
        mov [rcx], 0x20
        mov gs:[last], rcx
        lea rcx, [rcx + 0x18]
        mov gs:[position], rcx
        mov rcx, gs:[spill]
        mov gs:[spill_rcx], rcx
        mov gs:[spill_rdx], rdx
        pop rcx
        movzx edx, cx
        movzx edx, word [rdx*2 + 0x7e481010]
        jmp [rdx*8 + 0x7e401010]
        mov gs:[spill], rax
        mov gs:[spill_2], rcx
        mov rax, gs:[last]
        mov rcx, [rax]
        lea rcx, [rcx + 0x800000]
        mov [rax], rcx
        mov rcx, gs:[spill_2]
        mov rax, gs:[spill]
        nop
        nop
        jmp +0xca",
    );
    // mov rcx, [rsi]; jne; mov rax, [rsi + 8]; jmp: the header was written before; its number is changed
    recorded(&[0x48, 0x8b, 0x0e, 0x75, 16, 0x48, 0x8b, 0x46, 8, 0xeb, 0xf0]).check(
        "
        mov gs:[spill], rcx
        mov rcx, gs:[position]
        mov [rcx + 0x8], rsi
        mov [rcx], 0x20
        mov gs:[last], rcx
        lea rcx, [rcx + 0x10]
        mov gs:[position], rcx
        mov rcx, [rsi]
        jne +0x56
        mov rax, [rsi + 0x8]
        jmp +0x82
        mov gs:[spill], rax
        mov rax, gs:[position]
        mov [rax - 0x10], 0x21
        mov rax, gs:[spill]
        jmp +0xaa",
    );
    // mov [rsi], rax; jne the start; ret, which goes on where it leads: the branch leaves where it is not taken
    recorded(&[0x48, 0x89, 0x06, 0x75, 0xfb, 0xc3]).check(
        "
        mov gs:[spill], rax
        mov rax, gs:[position]
        mov [rax + 0x8], rsi
        mov [rax], 0x20
        mov gs:[last], rax
        lea rax, [rax + 0x10]
        mov gs:[position], rax
        mov rax, gs:[spill]
        mov [rsi], rax
        je +0x76
        mov [rsi], rax
        je +0x9e
        mov [rsi], rax
        je +0xc6
        mov [rsi], rax
        jne +0xf2
        jmp +0x11a
        mov gs:[spill], rax
        mov rax, gs:[position]
        mov [rax - 0x10], 0x21
        mov rax, gs:[spill]
        jmp +0x142
        mov gs:[spill], rax
        mov rax, gs:[position]
        mov [rax - 0x10], 0x22
        mov rax, gs:[spill]
        jmp +0x16a
        mov gs:[spill], rax
        mov rax, gs:[position]
        mov [rax - 0x10], 0x23
        mov rax, gs:[spill]
        jmp +0x192",
    );
    // where nothing is recorded it is a link
    quiet(&[0x85, 0xc0, 0x75, 16, 0x48, 0x8b, 0x06, 0xeb, 0xf0]).check(
        "
        test eax, eax
        jne +0x22
        mov rax, [rsi]
        jmp +0x4a",
    );
}

/// What is emitted for a long path through that code.
fn path_lines(bytes: &[u8], offsets: &[u64]) -> Vec<String> {
    let way: Vec<u64> = offsets.iter().map(|offset| HIGH + offset).collect();
    let read = |addr: u64, into: &mut [u8]| {
        let code = &bytes[(addr - HIGH) as usize..];
        into.iter_mut().zip(code).for_each(|(to, &from)| *to = from);
        code.len().min(into.len())
    };
    let plan = Plan::of_path(&way, read, |_| false).expect("it is code");
    let around = around(HIGH);
    let emitted = emit(&plan, &around).expect("nothing is far away");
    without_stubs(listing(emitted.code.bytes(), around.at))
}

#[test]
fn returns_in_the_middle_of_a_path_are_compared() {
    // call over one byte; mov rbx, [rdi], behind the call; the other: mov rax, [rsi]; ret 8
    let code = [0xe8, 3, 0, 0, 0, 0x48, 0x8b, 0x1f, 0x48, 0x8b, 0x06, 0xc2, 8, 0];
    let lines = path_lines(&code, &[0, 8, 11, 5]);
    let expect = "
        mov rdx, gs:[spill_rdx]
        mov gs:[spill], rbx
        mov rbx, gs:[position]
        mov [rbx + 0x8], rsp
        push [+0xe8]
        mov [rbx + 0x10], rsi
        mov rax, [rsi]
        mov gs:[spill_rcx], rcx
        mov gs:[spill_rdx], rdx
        pop rcx
        lea rsp, [rsp + 0x8]
        mov rdx, 0xffff80ffffbffffb
        lea rcx, [rcx + rdx]
        jrcxz +0x6e
        mov rdx, 0x7f0000400005
        lea rcx, [rcx + rdx]
        jmp +0xaa
        mov rcx, gs:[spill_rcx]
        mov rdx, gs:[spill_rdx]
        mov [rbx + 0x18], rdi
        mov [rbx], 0x20
        mov gs:[last], rbx
        lea rbx, [rbx + 0x20]
        mov gs:[position], rbx
        mov rbx, [rdi]
        jmp +0xf2
        mov [rbx], 0x21
        mov gs:[last], rbx
        lea rbx, [rbx + 0x18]
        mov gs:[position], rbx
        mov rbx, gs:[spill]
        movzx edx, cx
        movzx edx, word [rdx*2 + 0x7e481010]
        jmp [rdx*8 + 0x7e401010]
        dq 0x7f0000400005";
    let expect: Vec<&str> = expect.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines: Vec<String> = lines.into_iter().filter(|line| line != "nop").collect();
    assert_eq!(lines, expect, "{}", lines.join("\n"));
}

#[test]
fn blocks_end_as_the_program_goes_on() {
    // jmp
    quiet(&[0xeb, 0xf0]).check(
        "
        jmp +0x1a",
    );
    // jg
    quiet(&[0x7f, 0xf0]).check(
        "
        jg +0x22
        jmp +0x4a",
    );
    // loop
    quiet(&[0xe2, 0xf0]).check(
        "
        loop +0x14
        jmp +0x1d
        jmp +0x2a
        nop
        nop
        nop
        nop
        nop
        nop
        jmp +0x52",
    );
    // jrcxz
    quiet(&[0xe3, 0xf0]).check(
        "
        jrcxz +0x14
        jmp +0x1d
        jmp +0x2a
        nop
        nop
        nop
        nop
        nop
        nop
        jmp +0x52",
    );
}

#[test]
fn system_calls_leave_by_the_gate_and_stand_after_it() {
    // syscall
    let code = [0x0f, 0x05];
    quiet(&code).check(
        "
        mov gs:[spill_rax], rax
        lea rax, [+0x38]
        mov gs:[target], rax
        mov eax, 0x400000ff
        jmp gs:[gate]
        nop
        nop
        dq 0x100000000400002
        syscall
        jmp +0x4a",
    );
    // Where accesses are checked the handler is to see each.
    Form { task: CHECK, ..recorded(&code) }.check(
        "
        syscall
        jmp +0x1a",
    );
}

#[test]
fn calls_push_native_addresses() {
    // call
    quiet(&[0xe8, 0, 1, 0, 0]).check(
        "
        push 0x400005
        jmp +0x1a",
    );
    // call rax
    quiet(&[0xff, 0xd0]).check(
        "
        mov gs:[spill_rcx], rcx
        mov gs:[spill_rdx], rdx
        mov rcx, rax
        push 0x400002
        movzx edx, cx
        movzx edx, word [rdx*2 + 0x7e481010]
        jmp [rdx*8 + 0x7e401010]",
    );
    // call [rip + 0x100]
    quiet(&[0xff, 0x15, 0, 1, 0, 0]).check(
        "
        mov gs:[spill_rcx], rcx
        mov gs:[spill_rdx], rdx
        mov rcx, [0x400106]
        push 0x400006
        movzx edx, cx
        movzx edx, word [rdx*2 + 0x7e481010]
        jmp [rdx*8 + 0x7e401010]",
    );
}

#[test]
fn indirect_branches_are_looked_up() {
    // jmp rax
    quiet(&[0xff, 0xe0]).check(
        "
        mov gs:[spill_rcx], rcx
        mov gs:[spill_rdx], rdx
        mov rcx, rax
        movzx edx, cx
        movzx edx, word [rdx*2 + 0x7e481010]
        jmp [rdx*8 + 0x7e401010]",
    );
    // jmp rcx
    quiet(&[0xff, 0xe1]).check(
        "
        mov gs:[spill_rcx], rcx
        mov gs:[spill_rdx], rdx
        movzx edx, cx
        movzx edx, word [rdx*2 + 0x7e481010]
        jmp [rdx*8 + 0x7e401010]",
    );
    // jmp [rax*8 + 0x600000]
    quiet(&[0xff, 0x24, 0xc5, 0, 0, 0x60, 0]).check(
        "
        mov gs:[spill_rcx], rcx
        mov gs:[spill_rdx], rdx
        mov rcx, [rax*8 + 0x600000]
        movzx edx, cx
        movzx edx, word [rdx*2 + 0x7e481010]
        jmp [rdx*8 + 0x7e401010]",
    );
    // ret
    quiet(&[0xc3]).check(
        "
        mov gs:[spill_rcx], rcx
        mov gs:[spill_rdx], rdx
        pop rcx
        movzx edx, cx
        movzx edx, word [rdx*2 + 0x7e481010]
        jmp [rdx*8 + 0x7e401010]",
    );
    // ret 16
    quiet(&[0xc2, 16, 0]).check(
        "
        mov gs:[spill_rcx], rcx
        mov gs:[spill_rdx], rdx
        pop rcx
        lea rsp, [rsp + 0x10]
        movzx edx, cx
        movzx edx, word [rdx*2 + 0x7e481010]
        jmp [rdx*8 + 0x7e401010]",
    );
}

#[test]
fn what_the_tracer_executes_is_a_trap() {
    // vpgatherdd xmm1, [rax + xmm2*4], xmm0, which stands after the trap for when the tracer can't
    recorded(&[0xc4, 0xe2, 0x79, 0x90, 0x0c, 0x90]).check(
        "
        mov gs:[spill_rax], rax
        lea rax, [+0x36]
        mov gs:[target], rax
        mov eax, 0x400000fe
        jmp gs:[gate]
        int3
        vpgatherdd xmm1, dword [rax + xmm2*4], xmm0
        nop
        nop
        jmp +0x4a",
    );
    // int3: it does not go on
    recorded(&[0xcc]).check(
        "
        mov gs:[spill_rax], rax
        lea rax, [+0x36]
        mov gs:[target], rax
        mov eax, 0x400000fe
        jmp gs:[gate]
        int3",
    );
    // a function of the tracer's own
    Form { is_own: true, ..recorded(&[0x90]) }.check(
        "
        mov gs:[spill_rax], rax
        mov rax, 0x400000
        mov gs:[target], rax
        mov eax, 0x80000000
        jmp gs:[gate]",
    );
}

/// A call whose return address is no number of 32 bits pushes a word that stands after the block.
#[test]
fn far_calls_push_a_word() {
    let lines = Form { at: HIGH, ..quiet(&[0xe8, 0, 1, 0, 0]) }.lines();
    let push = lines.iter().position(|line| line.starts_with("push")).expect("a push");
    let word = lines[push].strip_prefix("push ").expect("of a word");
    assert_eq!(
        lines[push + 1..].iter().find(|line| line.starts_with("dq 0x7f")),
        Some(&"dq 0x7f0000400005".to_string()),
        "{lines:#?}"
    );
    assert!(word.starts_with("[+"), "{word}");
}

fn check_lines(lines: &[String], expect: &str) {
    let expect: Vec<&str> = expect.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, expect);
}

#[test]
fn a_way_leads_to_its_target_or_to_the_search() {
    let way = emit_way(CACHE, 0x7f00_1234_5678, CACHE + 0x100, 0x7e40_0000);
    check_lines(
        &listing(way.bytes(), CACHE),
        "
        mov rdx, 0xffff80ffedcba988
        lea rcx, [rcx + rdx]
        jrcxz +0x25
        mov rdx, 0x7f0012345678
        lea rcx, [rcx + rdx]
        jmp [0x7e400000]
        mov rcx, gs:[spill_rcx]
        jmp 0x30000100",
    );
}

#[test]
fn the_search_ends_at_a_pair_or_out_of_the_cache() {
    let search = emit_probe(CACHE, 0x7e00_0000, Mode::Silent);
    check_lines(
        &listing(search.bytes(), CACHE),
        "
        mov gs:[spill_rax], rax
        mov gs:[target], rcx
        jrcxz +0x57
        movzx edx, cx
        lea edx, [rdx + rdx]
        mov rax, [rdx*8 + 0x7e000000]
        lea rcx, [rcx + rax]
        jrcxz +0x3e
        mov rcx, rax
        jrcxz +0x57
        lea edx, [rdx + 0x2]
        mov rcx, gs:[target]
        jmp +0x1a
        mov rcx, gs:[spill_rcx]
        mov rax, gs:[spill_rax]
        jmp [rdx*8 + 0x7e000008]
        mov eax, 0x40000002
        jmp gs:[gate]",
    );
}

/// A program may have reserved all addresses below 2 GiB.
#[test]
fn tables_may_lie_anywhere() {
    let at = 0x7f00_0000_0000;
    let way = listing(emit_way(CACHE, 0x7f00_1234_5678, CACHE + 0x100, at).bytes(), CACHE);
    assert_eq!(way[5..7], ["mov rdx, 0x7f0000000000", "jmp [rdx]"], "{way:#?}");
    let search = listing(emit_probe(CACHE, at, Mode::Silent).bytes(), CACHE);
    let pair = ["mov rax, 0x7f0000000000", "mov rax, [rax + rdx*8]"];
    assert!(search.windows(2).any(|lines| lines == pair), "{search:#?}");
    let mut code = Assembler::new(CACHE);
    code.jump_by_table(at + 8);
    check_lines(
        &listing(code.bytes(), CACHE),
        "
        mov gs:[spill_rax], rax
        mov rax, 0x7f0000000008
        mov rdx, [rax + rdx*8]
        mov rax, gs:[spill_rax]
        jmp rdx",
    );
    let mut code = Assembler::new(CACHE);
    code.jump_by_number(at + 0x10, at + 8);
    check_lines(
        &listing(code.bytes(), CACHE),
        "
        mov gs:[spill_rax], rax
        mov rax, 0x7f0000000010
        movzx edx, word [rax + rdx*2]
        mov rax, 0x7f0000000008
        mov rdx, [rax + rdx*8]
        mov rax, gs:[spill_rax]
        jmp rdx",
    );
}

/// mov rax, [rax]; mov rcx, [rcx]; and so on, without rsp; jmp
const ALL_REGISTERS: [u8; 51] = [
    0x48, 0x8b, 0x00, 0x48, 0x8b, 0x09, 0x48, 0x8b, 0x12, 0x48, 0x8b, 0x1b, 0x48, 0x8b, 0x6d, 0, 0x48, 0x8b,
    0x36, 0x48, 0x8b, 0x3f, 0x4d, 0x8b, 0x00, 0x4d, 0x8b, 0x09, 0x4d, 0x8b, 0x12, 0x4d, 0x8b, 0x1b, 0x4d,
    0x8b, 0x24, 0x24, 0x4d, 0x8b, 0x6d, 0, 0x4d, 0x8b, 0x36, 0x4d, 0x8b, 0x3f, 0xeb, 0xf0, 0x90,
];
