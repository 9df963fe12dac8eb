//! Tests of blocks that record the bytes of accesses or orders around them, and of blocks whose accesses are checked.

use super::*;

#[test]
fn bytes_of_accesses_are_captured() {
    // mov eax, [ebx + ecx*4 + 0x10]: before the instruction
    Form { task: Task::Data, ..recorded(&[0x67, 0x8b, 0x44, 0x8b, 0x10]) }.check(
        "
        mov gs:[spill], rbp
        mov rbp, gs:[position]
        mov gs:[spill_rax], rax
        mov gs:[spill_rcx], rcx
        lea rax, [ebx + ecx*4 + 0x10]
        mov [rbp + 0x8], rax
        mov ecx, dword [rax]
        mov [rbp + 0x10], rcx
        mov rax, gs:[spill_rax]
        mov rcx, gs:[spill_rcx]
        mov [rbp], 0x20
        mov gs:[last], rbp
        lea rbp, [rbp + 0x18]
        mov gs:[position], rbp
        mov rbp, gs:[spill]
        mov eax, dword [ebx + ecx*4 + 0x10]
        jmp +0x92",
    );
    // mov [rdi], ax: after it
    Form { task: Task::Data, ..recorded(&[0x66, 0x89, 0x07]) }.check(
        "
        mov gs:[spill], rbx
        mov rbx, gs:[position]
        mov gs:[spill_rax], rax
        mov gs:[spill_rcx], rcx
        lea rax, [rdi]
        mov [rbx + 0x8], rax
        mov rax, gs:[spill_rax]
        mov rcx, gs:[spill_rcx]
        mov word [rdi], ax
        mov gs:[spill_rax], rax
        mov gs:[spill_rcx], rcx
        mov rax, [rbx + 0x8]
        movzx ecx, word [rax]
        mov [rbx + 0x10], rcx
        mov rax, gs:[spill_rax]
        mov rcx, gs:[spill_rcx]
        mov [rbx], 0x20
        mov gs:[last], rbx
        lea rbx, [rbx + 0x18]
        mov gs:[position], rbx
        mov rbx, gs:[spill]
        jmp +0xb2",
    );
    // fld tword [rdi]: ten bytes are two words, the last one the last eight bytes
    Form { task: Task::Data, ..recorded(&[0xdb, 0x2f]) }.check(
        "
        mov gs:[spill], rbx
        mov rbx, gs:[position]
        mov gs:[spill_rax], rax
        mov gs:[spill_rcx], rcx
        lea rax, [rdi]
        mov [rbx + 0x8], rax
        mov rcx, [rax]
        mov [rbx + 0x10], rcx
        mov rcx, [rax + 0x2]
        mov [rbx + 0x18], rcx
        mov rax, gs:[spill_rax]
        mov rcx, gs:[spill_rcx]
        mov [rbx], 0x20
        mov gs:[last], rbx
        lea rbx, [rbx + 0x20]
        mov gs:[position], rbx
        mov rbx, gs:[spill]
        fld wide [rdi]
        jmp +0x92",
    );
    // mov rax, fs:[0x28]
    Form { task: Task::Data, ..recorded(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0]) }.check(
        "
        mov gs:[spill], rbx
        mov rbx, gs:[position]
        mov gs:[spill_rax], rax
        mov gs:[spill_rcx], rcx
        mov rax, 0x28
        mov [rbx + 0x8], rax
        mov rcx, fs:[rax]
        mov [rbx + 0x10], rcx
        mov rax, gs:[spill_rax]
        mov rcx, gs:[spill_rcx]
        mov [rbx], 0x20
        mov gs:[last], rbx
        lea rbx, [rbx + 0x18]
        mov gs:[position], rbx
        mov rbx, gs:[spill]
        mov rax, fs:[0x28]
        jmp +0x92",
    );
    // call: what is pushed is known
    Form { task: Task::Data, ..recorded(&[0xe8, 0, 1, 0, 0]) }.check(
        "
        mov gs:[spill], rbx
        mov rbx, gs:[position]
        mov gs:[spill_rax], rax
        mov gs:[spill_rcx], rcx
        lea rax, [rsp - 0x8]
        mov [rbx + 0x8], rax
        mov rax, 0x400005
        mov [rbx + 0x10], rax
        mov rax, gs:[spill_rax]
        mov rcx, gs:[spill_rcx]
        mov [rbx], 0x20
        mov gs:[last], rbx
        lea rbx, [rbx + 0x18]
        mov gs:[position], rbx
        mov rbx, gs:[spill]
        push 0x400005
        jmp +0x92",
    );
}

#[test]
fn orders_stand_around_locked_instructions() {
    // lock inc qword [rsi]: the flags that it sets are not needed before
    recorded(&[0xf0, 0x48, 0xff, 0x06, 0x72, 0xf0]).check(
        "
        mov gs:[spill], rbx
        mov rbx, gs:[position]
        mov gs:[spill_rax], rax
        mov gs:[spill_rcx], rcx
        lea rax, [rsi]
        mov [rbx + 0x8], rax
        mov gs:[spill_rdx], rdx
        lahf
        seto al
        mov edx, 0x0
        mov rcx, gs:[order]
        jrcxz +0x6b
        mov edx, 0x2
        lock xadd [rcx], rdx
        lea rdx, [rdx + 0x1]
        mov [rbx + 0x10], rdx
        add al, 0x7f
        sahf
        mov rdx, gs:[spill_rdx]
        mov rax, gs:[spill_rax]
        mov rcx, gs:[spill_rcx]
        lock inc [rsi]
        mov gs:[spill_rcx], rcx
        mov rcx, gs:[order]
        jrcxz +0xa9
        mov rcx, [rcx]
        mov [rbx + 0x18], rcx
        mov rcx, gs:[spill_rcx]
        mov [rbx], 0x20
        mov gs:[last], rbx
        lea rbx, [rbx + 0x20]
        mov gs:[position], rbx
        mov rbx, gs:[spill]
        nop
        nop
        jmp +0xea",
    );
    // lock add [rsi], rax: no flag is needed before
    recorded(&[0xf0, 0x48, 0x01, 0x06]).check(
        "
        mov gs:[spill], rbx
        mov rbx, gs:[position]
        mov gs:[spill_rax], rax
        mov gs:[spill_rcx], rcx
        lea rax, [rsi]
        mov [rbx + 0x8], rax
        mov gs:[spill_rdx], rdx
        mov edx, 0x0
        mov rcx, gs:[order]
        jrcxz +0x67
        mov edx, 0x2
        lock xadd [rcx], rdx
        lea rdx, [rdx + 0x1]
        mov [rbx + 0x10], rdx
        mov rdx, gs:[spill_rdx]
        mov rax, gs:[spill_rax]
        mov rcx, gs:[spill_rcx]
        lock add [rsi], rax
        mov gs:[spill_rcx], rcx
        mov rcx, gs:[order]
        jrcxz +0xa2
        mov rcx, [rcx]
        mov [rbx + 0x18], rcx
        mov rcx, gs:[spill_rcx]
        mov [rbx], 0x20
        mov gs:[last], rbx
        lea rbx, [rbx + 0x20]
        mov gs:[position], rbx
        mov rbx, gs:[spill]
        jmp +0xe2",
    );
}

#[test]
fn accesses_are_checked() {
    // mov rax, [rdi + 8]; add [rsi], rax; jmp
    Form { task: CHECK, ..recorded(&[0x48, 0x8b, 0x47, 8, 0x48, 0x01, 0x06, 0xeb, 0xf0]) }.check(
        "
        mov gs:[spill_rcx], rcx
        lea rcx, [rdi + 0x8]
        shr rcx, 0x8
        mov ecx, ecx
        cmp byte [rcx*2 + 0x50000000], 0x0
        jne +0x9e
        mov rcx, gs:[spill_rcx]
        mov rax, [rdi + 0x8]
        mov gs:[spill_rcx], rcx
        lea rcx, [rsi]
        shr rcx, 0x8
        mov ecx, ecx
        cmp word [rcx*2 + 0x50000000], 0x0
        jne +0xd7
        mov rcx, gs:[spill_rcx]
        add [rsi], rax
        jmp +0x7a
        mov rcx, gs:[spill_rcx]
        mov gs:[spill_rax], rax
        mov eax, 0xc0000003
        jmp gs:[gate]
        mov rax, [rdi + 0x8]
        mov gs:[spill_rax], rax
        mov eax, 0xe0000003
        jmp gs:[gate]
        mov rcx, gs:[spill_rcx]
        mov gs:[spill_rax], rax
        mov eax, 0xc0000004
        jmp gs:[gate]
        add [rsi], rax
        mov gs:[spill_rax], rax
        mov eax, 0xe0000004
        jmp gs:[gate]",
    );
    // mov [rdi], eax, where flags are needed
    Form { task: CHECK, ..recorded(&[0x89, 0x07, 0xeb, 0xf0]) }.check(
        "
        mov gs:[spill_rcx], rcx
        lea rcx, [rdi]
        rorx rcx, rcx, 0x8
        mov ecx, ecx
        movzx ecx, byte [rcx*2 + 0x50000001]
        jrcxz +0x38
        jmp +0x6e
        mov rcx, gs:[spill_rcx]
        mov dword [rdi], eax
        jmp +0x4a
        mov rcx, gs:[spill_rcx]
        mov gs:[spill_rax], rax
        mov eax, 0xc0000003
        jmp gs:[gate]
        mov dword [rdi], eax
        mov gs:[spill_rax], rax
        mov eax, 0xe0000003
        jmp gs:[gate]",
    );
    // on a processor without a rotation that leaves them
    Form { task: CHECK, rotates: false, ..recorded(&[0x89, 0x07, 0xeb, 0xf0]) }.check(
        "
        mov gs:[spill_rcx], rcx
        lea rcx, [rdi]
        mov gs:[spill_2], rcx
        mov ecx, dword gs:[spill_2 + 1]
        movzx ecx, byte [rcx*2 + 0x50000001]
        jrcxz +0x42
        jmp +0x76
        mov rcx, gs:[spill_rcx]
        mov dword [rdi], eax
        jmp +0x52
        mov rcx, gs:[spill_rcx]
        mov gs:[spill_rax], rax
        mov eax, 0xc0000003
        jmp gs:[gate]
        mov dword [rdi], eax
        mov gs:[spill_rax], rax
        mov eax, 0xe0000003
        jmp gs:[gate]",
    );
    // mov rax, fs:[rdx + 0x28]
    Form { task: CHECK, ..recorded(&[0x64, 0x48, 0x8b, 0x42, 0x28, 0xeb, 0xf0]) }.check(
        "
        mov gs:[spill_rcx], rcx
        mov rcx, gs:[fs_base]
        lea rcx, [rdx + rcx + 0x28]
        rorx rcx, rcx, 0x8
        mov ecx, ecx
        movzx ecx, byte [rcx*2 + 0x50000000]
        jrcxz +0x41
        jmp +0x7e
        mov rcx, gs:[spill_rcx]
        mov rax, fs:[rdx + 0x28]
        jmp +0x5a
        mov rcx, gs:[spill_rcx]
        mov gs:[spill_rax], rax
        mov eax, 0xc0000003
        jmp gs:[gate]
        mov rax, fs:[rdx + 0x28]
        mov gs:[spill_rax], rax
        mov eax, 0xe0000003
        jmp gs:[gate]",
    );
    // stosb, repeated: one look does not do
    Form { task: CHECK, ..recorded(&[0xf3, 0xaa]) }.check(
        "
        mov gs:[spill_rcx], rcx
        jmp +0x4e
        rep stosb
        jmp +0x2a
        mov rcx, gs:[spill_rcx]
        mov gs:[spill_rax], rax
        mov eax, 0xc0000003
        jmp gs:[gate]
        int3",
    );
}
