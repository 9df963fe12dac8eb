// Machine code that is drawn, written and executed: arithmetic with all its flags, memory at the end of a page, string operations both
// ways, branches, calls, faults in the middle, and code that changes what comes next.
#define _GNU_SOURCE
#include "differ.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// What is written, and where.
struct code {
    struct random *random;
    uint8_t *next;
};

static void byte(struct code *code, unsigned value)
{
    *code->next++ = (uint8_t)value;
}

static void bytes(struct code *code, const char *text, size_t count)
{
    memcpy(code->next, text, count);
    code->next += count;
}
#define EMIT(code, text) bytes(code, text, sizeof text - 1)

static void word(struct code *code, uint32_t value)
{
    memcpy(code->next, &value, 4);
    code->next += 4;
}

static uint64_t pick(struct code *code, uint64_t n)
{
    return below(code->random, n);
}

// Registers that code may change: all but rsp, rbp (the frame of the caller) and rdi (the open pages).
static unsigned any_register(struct code *code)
{
    static const uint8_t ALL[] = {0, 1, 2, 3, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    return ALL[pick(code, sizeof ALL)];
}

// Of an operand: 1, 2, 4 or 8 bytes.
struct size {
    unsigned bytes;
};

static struct size any_size(struct code *code)
{
    static const uint8_t ALL[] = {1, 2, 4, 4, 8, 8};
    return (struct size){ALL[pick(code, sizeof ALL)]};
}

// An offset from rdi; now and then one at the end of the pages, or behind it.
static uint32_t offset(struct code *code)
{
    if (one_in(code->random, 24))
        return (uint32_t)(OPEN_BYTES - 16 + pick(code, 20));
    return (uint32_t)pick(code, OPEN_BYTES - 64);
}

// An instruction with a register and a register or memory; `opcode` is that of the larger sizes, its lowest bit tells bytes apart.
static void modrm(struct code *code, struct size size, const char *escape, unsigned opcode, unsigned reg, bool in_memory, bool has_byte_form,
                  bool lock)
{
    unsigned rm = any_register(code);
    if (lock)
        byte(code, 0xf0);
    if (size.bytes == 2)
        byte(code, 0x66);
    // Always a REX prefix, so that sil and its relatives are bytes.
    byte(code, 0x40 | (size.bytes == 8 ? 8 : 0) | (reg >= 8 ? 4 : 0) | (!in_memory && rm >= 8 ? 1 : 0));
    for (; *escape != 0; escape++)
        byte(code, (uint8_t)*escape);
    byte(code, has_byte_form && size.bytes == 1 ? opcode & ~1u : opcode);
    if (in_memory) {
        byte(code, 0x80 | (reg & 7) << 3 | 7);
        word(code, offset(code));
    } else {
        byte(code, 0xc0 | (reg & 7) << 3 | (rm & 7));
    }
}

static void arithmetic(struct code *code)
{
    static const uint8_t TWO[] = {0x01, 0x03, 0x09, 0x0b, 0x11, 0x13, 0x19, 0x1b, 0x21, 0x23, 0x29, 0x2b,
                                  0x31, 0x33, 0x39, 0x3b, 0x85, 0x87, 0x89, 0x8b};
    modrm(code, any_size(code), "", TWO[pick(code, sizeof TWO)], any_register(code), one_in(code->random, 2), true, false);
}

static void locked(struct code *code)
{
    static const uint8_t TO_MEMORY[] = {0x01, 0x09, 0x11, 0x19, 0x21, 0x29, 0x31};
    if (one_in(code->random, 2))
        modrm(code, any_size(code), "", TO_MEMORY[pick(code, sizeof TO_MEMORY)], any_register(code), true, true, true);
    else
        modrm(code, any_size(code), "\x0f", one_in(code->random, 2) ? 0xc1 : 0xb1, any_register(code), true, true, true);
}

static void one_operand(struct code *code)
{
    static const uint8_t GROUP[] = {0, 2, 3, 4, 5};
    unsigned which = GROUP[pick(code, sizeof GROUP)];
    struct size size = any_size(code);
    modrm(code, size, "", 0xf7, which, one_in(code->random, 2), true, false);
    if (which != 0)
        return;
    if (size.bytes == 1)
        byte(code, (unsigned)pick(code, 256));
    else if (size.bytes == 2)
        EMIT(code, "\x34\x12");
    else
        word(code, (uint32_t)draw(code->random));
}

static void immediate(struct code *code)
{
    modrm(code, any_size(code), "", 0x83, (unsigned)pick(code, 8), one_in(code->random, 2), false, false);
    byte(code, (unsigned)pick(code, 256));
}

static void shift(struct code *code)
{
    bool by_one = one_in(code->random, 2);
    modrm(code, any_size(code), "", by_one ? 0xd1 : 0xc1, (unsigned)pick(code, 8), one_in(code->random, 3), true, false);
    if (!by_one)
        byte(code, (unsigned)pick(code, 256));
}

static void two_bytes(struct code *code)
{
    static const uint8_t OPCODES[] = {0xaf, 0xb6, 0xb7, 0xbe, 0xbf, 0xa3, 0xab, 0xb3, 0xbb, 0xc1, 0xb1, 0xbc, 0xbd, 0x40, 0x42, 0x44,
                                      0x45, 0x47, 0x48, 0x4a, 0x4c, 0x4e, 0x4f};
    unsigned opcode = OPCODES[pick(code, sizeof OPCODES)];
    bool is_bit_test = opcode == 0xa3 || opcode == 0xab || opcode == 0xb3 || opcode == 0xbb;
    struct size size = any_size(code);
    if (size.bytes == 1)
        size.bytes = 4;
    // A bit test in memory reaches as far as its register says.
    modrm(code, size, "\x0f", opcode, any_register(code), !is_bit_test && one_in(code->random, 2), false, false);
}

static void set_on_condition(struct code *code)
{
    modrm(code, (struct size){1}, "\x0f", 0x90 + (unsigned)pick(code, 16), 0, one_in(code->random, 2), false, false);
}

static void flags(struct code *code)
{
    static const char *const ALL[] = {"\xf5", "\xf8", "\xf9", "\x9f", "\x9e", "\x98", "\x99", "\x48\x98", "\x48\x99", "\xd7"};
    // xlat takes rbx for a table.
    static const char TABLE[] = "\x48\x89\xfb";
    const char *drawn = ALL[pick(code, sizeof ALL / sizeof *ALL)];
    if (*drawn == '\xd7')
        EMIT(code, TABLE);
    bytes(code, drawn, strlen(drawn));
}

static void strings(struct code *code)
{
    static const char *const OPERATIONS[] = {"\xa4", "\x48\xa5", "\xaa", "\x48\xab", "\xac", "\x48\xad", "\xa6", "\xae", "\x48\xa7", "\x66\xa5"};
    bool backwards = one_in(code->random, 3);
    EMIT(code, "\x57");                       // push rdi
    EMIT(code, "\x48\x8d\xb7");               // lea rsi, [rdi + ...]
    word(code, 1024 + (uint32_t)pick(code, 4096));
    EMIT(code, "\x48\x81\xc7");               // add rdi, ...
    word(code, 1024 + (uint32_t)pick(code, one_in(code->random, 6) ? 7168 : 4096));
    byte(code, 0xb9);                         // mov ecx, ...
    word(code, (uint32_t)pick(code, one_in(code->random, 8) ? 2000 : 40));
    if (backwards)
        byte(code, 0xfd);                     // std
    if (!one_in(code->random, 4))
        byte(code, one_in(code->random, 2) ? 0xf3 : 0xf2);
    const char *operation = OPERATIONS[pick(code, sizeof OPERATIONS / sizeof *OPERATIONS)];
    bytes(code, operation, strlen(operation));
    if (backwards)
        byte(code, 0xfc);                     // cld
    EMIT(code, "\x5f");                       // pop rdi
}

static void vectors(struct code *code)
{
    // 66 0F: integers in 128 bits, both operands registers xmm0 to xmm7.
    static const uint8_t INTEGERS[] = {0x60, 0x61, 0x62, 0x64, 0x65, 0x66, 0x6c, 0x74, 0x75, 0x76, 0xd4, 0xd5, 0xda, 0xdb, 0xde, 0xdf, 0xe5,
                                       0xeb, 0xef, 0xf4, 0xf6, 0xfa, 0xfb, 0xfc, 0xfe};
    unsigned a = (unsigned)pick(code, 8), b = (unsigned)pick(code, 8);
    switch (pick(code, 6)) {
    case 0: EMIT(code, "\xf3\x0f\x6f"); byte(code, 0x87 | a << 3); word(code, offset(code)); break; // movdqu xmm, [rdi + ...]
    case 1: EMIT(code, "\xf3\x0f\x7f"); byte(code, 0x87 | a << 3); word(code, offset(code)); break; // movdqu [rdi + ...], xmm
    case 2: EMIT(code, "\x66\x0f\x6f"); byte(code, 0x87 | a << 3); word(code, offset(code) & (one_in(code->random, 8) ? ~0u : ~15u)); break;
    case 3: EMIT(code, "\x66\x0f\xd7"); byte(code, 0xc0 | b); break;                                // pmovmskb eax, xmm
    default: EMIT(code, "\x66\x0f"); byte(code, INTEGERS[pick(code, sizeof INTEGERS)]); byte(code, 0xc0 | a << 3 | b); break;
    }
}

static void addresses(struct code *code)
{
    unsigned to = any_register(code), index = any_register(code);
    // An index of less than 256: movzx index, its own lowest byte.
    byte(code, 0x40 | (index >= 8 ? 5 : 0));
    EMIT(code, "\x0f\xb6");
    byte(code, 0xc0 | (index & 7) << 3 | (index & 7));
    // lea or mov to, [rdi + index * 4 + ...]
    byte(code, 0x48 | (to >= 8 ? 4 : 0) | (index >= 8 ? 2 : 0));
    byte(code, one_in(code->random, 2) ? 0x8d : 0x8b);
    byte(code, 0x44 | (to & 7) << 3);
    byte(code, 0x80 | (index & 7) << 3 | 7);
    byte(code, (unsigned)pick(code, 128));
}

static void stack(struct code *code)
{
    switch (pick(code, 4)) {
    case 0: EMIT(code, "\xff\xb7"); word(code, offset(code)); byte(code, 0x58); break;              // push [rdi + ...]; pop rax
    case 1: EMIT(code, "\x50\x8f\x87"); word(code, offset(code)); break;                            // push rax; pop [rdi + ...]
    case 2: EMIT(code, "\xc8\x20\x00\x00\xc9"); break;                                              // enter 32, 0; leave
    default: EMIT(code, "\x9c\x58"); break;                                                         // pushf; pop rax
    }
}

static void system_call(struct code *code)
{
    // No such call: what is left in rcx and r11 is the address behind it and the flags.
    EMIT(code, "\xb8\xf4\x01\x00\x00\x0f\x05");
}

static void processor(struct code *code)
{
    // cpuid leaf 0; xgetbv 0.
    if (one_in(code->random, 2))
        EMIT(code, "\x31\xc0\x0f\xa2");
    else
        EMIT(code, "\x31\xc9\x0f\x01\xd0");
}

// What no program executes on purpose.
static void trap(struct code *code)
{
    static const struct {
        const char *bytes;
        size_t count;
    } ALL[] = {
#define TRAP(text) {text, sizeof text - 1}
        TRAP("\x0f\x0b"),                                  // ud2
        TRAP("\xcc"),                                      // int3
        TRAP("\xf1"),                                      // icebp
        TRAP("\xf4"),                                      // hlt
        TRAP("\xfa"),                                      // cli
        TRAP("\xec"),                                      // in al, dx
        TRAP("\x06"),                                      // push es, which is none in 64 bits
        TRAP("\x0f\xff\xc0"),                              // ud0
        TRAP("\x31\xc9\xf7\xf1"),                          // xor ecx, ecx; div ecx
        TRAP("\x31\xd2\xb8\x00\x00\x00\x80\xb9\xff\xff\xff\xff\x99\xf7\xf9"), // the quotient that has no room
        TRAP("\xf0\x89\x07"),                              // lock mov
        TRAP("\xf0\x01\xc0"),                              // lock add of a register
        TRAP("\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90"), // too long
        TRAP("\xcd\x03"),                                  // int 3 in two bytes
        TRAP("\xcd\x20"),                                  // an interrupt that is the kernel's
        TRAP("\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x80\xff\xe0"), // a jump to where no address is
        TRAP("\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x80\x50\xc3"), // a return to there
        TRAP("\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x80\x8b\x00"), // a load from there
        TRAP("\x31\xc0\xff\xe0"),                          // a jump to zero
        TRAP("\x31\xc0\xff\xd0"),                          // a call of zero
        TRAP("\xff\xe7"),                                  // a jump to data
        TRAP("\xff\x27"),                                  // a jump to where data says
        TRAP("\x0f\x01\xd1"),                              // xsetbv
        TRAP("\x0f\x30"),                                  // wrmsr
        TRAP("\x8e\xd8\x0f\xaa"),                          // a segment that is none, rsm
        TRAP("\x0f\x20\xc0"),                              // mov from cr0
#undef TRAP
    };
    unsigned which = (unsigned)pick(code, sizeof ALL / sizeof *ALL);
    bytes(code, ALL[which].bytes, ALL[which].count);
}

static void piece(struct code *code, int depth);

static void branch(struct code *code, int depth)
{
    uint8_t *from;
    uint32_t length;
    switch (pick(code, 7)) {
    case 0:
    case 1: // a condition over a piece
        byte(code, 0x0f);
        byte(code, 0x80 | (unsigned)pick(code, 16));
        word(code, 0);
        from = code->next;
        piece(code, depth);
        length = (uint32_t)(code->next - from);
        memcpy(from - 4, &length, 4);
        break;
    case 2: // a loop of 1 to 20 turns, which counts on the stack
        byte(code, 0x6a);
        byte(code, 1 + (unsigned)pick(code, 20));
        from = code->next;
        piece(code, depth);
        EMIT(code, "\x48\xff\x0c\x24\x0f\x85"); // dec [rsp]; jnz
        word(code, (uint32_t)(from - code->next - 4));
        EMIT(code, "\x48\x8d\x64\x24\x08");     // lea rsp, [rsp + 8]
        break;
    case 3: // a function behind a jump, called
        byte(code, 0xe9);
        word(code, 0);
        from = code->next;
        piece(code, depth);
        if (one_in(code->random, 3))
            EMIT(code, "\xc2\x00\x00");
        else
            byte(code, 0xc3);
        length = (uint32_t)(code->next - from);
        memcpy(from - 4, &length, 4);
        byte(code, 0xe8);
        word(code, (uint32_t)(from - code->next - 4));
        break;
    case 4: // through a register: lea rax, [rip + 2]; jmp rax
        EMIT(code, "\x48\x8d\x05\x02\x00\x00\x00\xff\xe0");
        break;
    case 5: // jrcxz, loop
        EMIT(code, "\xb9\x03\x00\x00\x00\xe3\x02\xe2\xfe");
        break;
    default: // a store into the operand of the next instruction: mov byte [rip + 1], ...; mov eax, ...
        EMIT(code, "\xc6\x05\x01\x00\x00\x00");
        byte(code, (unsigned)pick(code, 256));
        EMIT(code, "\xb8\x01\x02\x03\x04");
        break;
    }
}

static void piece(struct code *code, int depth)
{
    static void (*const PLAIN[])(struct code *) = {arithmetic, arithmetic, arithmetic, locked, one_operand, immediate, shift, two_bytes,
                                                   set_on_condition, flags, strings, vectors, addresses, stack};
    for (uint64_t count = 1 + pick(code, 6); count > 0; count--) {
        if (depth < 2 && one_in(code->random, 5))
            branch(code, depth + 1);
        else if (one_in(code->random, 60))
            system_call(code);
        else if (one_in(code->random, 200))
            processor(code);
        else
            PLAIN[pick(code, sizeof PLAIN / sizeof *PLAIN)](code);
    }
}

// What the code left.
struct left {
    uint64_t registers[16];
    uint64_t flags;
    uint8_t vectors[8 * 16];
};
__attribute__((used)) static struct left left;
__attribute__((used)) static uint64_t values[16];

// Calls the code with registers full of numbers, and keeps what it leaves.
__attribute__((naked, noinline)) static void execute(__attribute__((unused)) void *code)
{
    __asm__(".intel_syntax noprefix\n"
            "push rbx\n push rbp\n push r12\n push r13\n push r14\n push r15\n"
            "mov rbp, rdi\n"
            "lea rax, values[rip]\n"
            "mov rbx, [rax + 3 * 8]\n mov rcx, [rax + 8]\n mov rdx, [rax + 2 * 8]\n mov rsi, [rax + 6 * 8]\n"
            "mov r8, [rax + 8 * 8]\n mov r9, [rax + 9 * 8]\n mov r10, [rax + 10 * 8]\n mov r11, [rax + 11 * 8]\n"
            "mov r12, [rax + 12 * 8]\n mov r13, [rax + 13 * 8]\n mov r14, [rax + 14 * 8]\n mov r15, [rax + 15 * 8]\n"
            "mov rax, [rax]\n"
            "movabs rdi, 0x2000000000\n"
            "movdqu xmm0, [rdi]\n movdqu xmm1, [rdi + 16]\n movdqu xmm2, [rdi + 32]\n movdqu xmm3, [rdi + 48]\n"
            "movdqu xmm4, [rdi + 64]\n movdqu xmm5, [rdi + 80]\n movdqu xmm6, [rdi + 96]\n movdqu xmm7, [rdi + 112]\n"
            "cmp eax, 0x12345678\n"
            "call rbp\n"
            "pushfq\n"
            "push rax\n"
            "lea rax, left[rip]\n"
            "pop [rax]\n"
            "pop [rax + 128]\n"
            "cld\n"
            "mov [rax + 8], rcx\n mov [rax + 16], rdx\n mov [rax + 24], rbx\n mov [rax + 48], rsi\n mov [rax + 56], rdi\n"
            "mov [rax + 64], r8\n mov [rax + 72], r9\n mov [rax + 80], r10\n mov [rax + 88], r11\n"
            "mov [rax + 96], r12\n mov [rax + 104], r13\n mov [rax + 112], r14\n mov [rax + 120], r15\n"
            "movdqu [rax + 136], xmm0\n movdqu [rax + 152], xmm1\n movdqu [rax + 168], xmm2\n movdqu [rax + 184], xmm3\n"
            "movdqu [rax + 200], xmm4\n movdqu [rax + 216], xmm5\n movdqu [rax + 232], xmm6\n movdqu [rax + 248], xmm7\n"
            "pop r15\n pop r14\n pop r13\n pop r12\n pop rbp\n pop rbx\n"
            "ret\n"
            ".att_syntax\n");
}

static void show(const uint64_t *registers)
{
    for (int i = 0; verbose && i < 16; i++)
        say(" %llx", (unsigned long long)registers[i]);
}

void step_code(struct random *random)
{
    fill_open(random);
    static uint8_t *where;
    if (where == NULL) {
        where = mmap(CODE, CODE_PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (where != CODE)
            _exit(94);
    }
    for (int i = 0; i < 16; i++)
        values[i] = one_in(random, 3) ? below(random, 300) : draw(random);
    // Anywhere, so that instructions cross pages, too.
    struct code code = {.random = random, .next = CODE + below(random, PAGE + PAGE / 2)};
    uint8_t *start = code.next;
    piece(&code, 0);
    bool traps = one_in(random, 3);
    if (traps) {
        trap(&code);
        piece(&code, 0);
    }
    byte(&code, 0xc3);
    say(" %lld+%lld %016llx", (long long)(start - CODE), (long long)(code.next - start),
        (unsigned long long)hash(start, (size_t)(code.next - start)));
    if (verbose) {
        for (const uint8_t *each = start; each < code.next; each++)
            say(" %02x", *each);
        say("\n");
    }
    struct fault fault;
    if (faults(execute, start, &fault)) {
        say(" !%d/%d@%llx", fault.signal, fault.code, (unsigned long long)fault.address);
        // What is known to be another one recorded (docs/limitations.md): the instruction, where the processor finds that an address can be
        // none, may be the target of the branch; and flags that no instruction reads any more are not kept.
        if (verbose || fault.signal != SIGSEGV || fault.code != SI_KERNEL)
            say(" ip %lld", (long long)(fault.instruction - (uint64_t)CODE));
        if (verbose)
            say(" flags %llx", (unsigned long long)fault.flags);
        // rsp and rbp are the caller's; an address of the caller's stack is left by a push alone.
        fault.registers[4] = fault.registers[5] = 0;
        show(fault.registers);
        say(" %016llx", (unsigned long long)hash(fault.registers, sizeof fault.registers));
    } else {
        left.registers[4] = left.registers[5] = 0;
        show(left.registers);
        say(" %016llx flags %llx", (unsigned long long)hash(&left, sizeof left), (unsigned long long)left.flags);
    }
    say(" %016llx", (unsigned long long)hash_open());
}
