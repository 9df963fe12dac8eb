// Every integer operation on memory gives the result and the flags that it gives on a register, whoever executes it.
// lackey: no
// stdout: 22288 operations, 0 wrong
#include <stdio.h>
#include "access.h"

static unsigned char memory_u8;
static unsigned short memory_u16;
static unsigned memory_u32;
static unsigned long memory_u64;
static long operations, wrong;

// Flags as lahf and seto have them: SF ZF AF PF CF in the high byte, OF in bit 0.
#define SZPC 0xc501
#define ALL 0xd501
#define CARRY 0x0100
#define NONE 0

static const unsigned long values[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0x12345678, 0x7fffffff, 0x80000000,
                                       0xdeadbeefcafebabe, 0x8000000000000000, 0xffffffffffffffff};
#define VALUES (sizeof values / sizeof *values)

__attribute__((noinline)) static void report(const char *op, unsigned long a, unsigned long b, unsigned long by_memory,
                                             unsigned long by_register, unsigned f, unsigned g)
{
    if (wrong++ < 10)
        printf("%s %lx %lx: memory %lx flags %x, register %lx flags %x\n", op, a, b, by_memory, f, by_register, g);
}

#define CHECK(name, mask, same_source)                                                                     \
    operations++;                                                                                          \
    if (result != reference || ((flags ^ expected) & (mask)) || !(same_source))                            \
        report(name, values[x], values[y], result, reference, flags & 0xffff, expected & 0xffff);

#define BEGIN "addb $0x7f, %%al\n\tsahf\n\t"
#define END "\n\tlahf\n\tseto %%al"
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long u64;

// op register, memory
#define BINARY(type, op, mask)                                                                             \
    for (unsigned x = 0; x < VALUES; x++)                                                                  \
        for (unsigned y = 0; y < VALUES; y++) {                                                            \
            unsigned long flags = y & 1 ? 0x0100 : 0xd401, expected = flags;                               \
            type reference = values[x], result, b = values[y], c = b;                                      \
            memory_##type = reference;                                                                     \
            __asm__ volatile(BEGIN op " %2, %1" END : "+a"(flags), "+m"(memory_##type) : "q"(b) : "cc");   \
            __asm__ volatile(BEGIN op " %2, %1" END : "+a"(expected), "+q"(reference) : "q"(c) : "cc");    \
            result = memory_##type;                                                                        \
            CHECK(op " to memory", mask, 1)                                                                \
            flags = expected = y & 1 ? 0xd400 : 0x0001;                                                    \
            memory_##type = values[x];                                                                     \
            result = reference = values[y], b = values[x];                                                 \
            __asm__ volatile(BEGIN op " %2, %1" END : "+a"(flags), "+q"(result) : "m"(memory_##type) : "cc"); \
            __asm__ volatile(BEGIN op " %2, %1" END : "+a"(expected), "+q"(reference) : "q"(b) : "cc");    \
            CHECK(op " from memory", mask, memory_##type == b)                                             \
        }
#define UNARY(type, prefix, op, mask)                                                                            \
    for (unsigned x = 0; x < VALUES; x++) {                                                                \
        for (unsigned y = 0; y < 2; y++) {                                                                 \
            unsigned long flags = y & 1 ? 0x0100 : 0xd401, expected = flags;                               \
            type reference = values[x], result;                                                            \
            memory_##type = reference;                                                                     \
            __asm__ volatile(BEGIN prefix op " %1" END : "+a"(flags), "+m"(memory_##type) : : "cc");       \
            __asm__ volatile(BEGIN op " %1" END : "+a"(expected), "+q"(reference) : : "cc");               \
            result = memory_##type;                                                                        \
            CHECK(op, mask, 1)                                                                             \
        }                                                                                                  \
    }
#define SHIFT(type, op, mask)                                                                              \
    for (unsigned x = 0; x < VALUES; x++)                                                                  \
        for (unsigned y = 0; y < VALUES; y++) {                                                            \
            unsigned long flags = y & 1 ? 0x0100 : 0xd401, expected = flags;                               \
            unsigned char n = y * 3;                                                                       \
            type reference = values[x], result;                                                            \
            memory_##type = reference;                                                                     \
            __asm__ volatile(BEGIN op " %%cl, %1" END : "+a"(flags), "+m"(memory_##type) : "c"(n) : "cc"); \
            __asm__ volatile(BEGIN op " %%cl, %1" END : "+a"(expected), "+q"(reference) : "c"(n) : "cc");  \
            result = memory_##type;                                                                        \
            CHECK(op, mask, 1)                                                                             \
        }
#define SET(cc)                                                                                            \
    for (unsigned x = 0; x < VALUES; x++) {                                                                \
        unsigned y = 0;                                                                                    \
        unsigned long flags = (values[x] << 8 & 0xff00) | (x & 1), expected = flags;                       \
        u8 reference = 0, result;                                                                          \
        __asm__ volatile(BEGIN "set" cc " %1" END : "+a"(flags), "=m"(memory_u8) : : "cc");                \
        __asm__ volatile(BEGIN "set" cc " %1" END : "+a"(expected), "+q"(reference) : : "cc");             \
        result = memory_u8;                                                                                \
        CHECK("set" cc, ALL, 1)                                                                            \
        u64 moved = 5, kept = 5, source = 9;                                                               \
        memory_u64 = source;                                                                               \
        flags = expected = (values[x] << 8 & 0xff00) | (x & 1);                                            \
        __asm__ volatile(BEGIN "cmov" cc " %2, %1" END : "+a"(flags), "+r"(moved) : "m"(memory_u64) : "cc");  \
        __asm__ volatile(BEGIN "cmov" cc " %2, %1" END : "+a"(expected), "+r"(kept) : "r"(source) : "cc"); \
        CHECK("cmov" cc, ALL, moved == kept)                                                               \
    }
// Compare-and-exchange with the accumulator kept apart from the flags' register.
#define EXCHANGE(type)                                                                                     \
    for (unsigned x = 0; x < VALUES; x++)                                                                  \
        for (unsigned y = 0; y < VALUES; y++) {                                                            \
            type reference = values[x], result, a = values[y], b = a, c = 77;                              \
            u8 zero, zero_expected;                                                                        \
            memory_##type = reference;                                                                     \
            __asm__ volatile("lock cmpxchg %3, %1\n\tsete %2" : "+a"(a), "+m"(memory_##type), "=q"(zero) : "q"(c) : "cc");       \
            __asm__ volatile("cmpxchg %3, %1\n\tsete %2" : "+a"(b), "+q"(reference), "=q"(zero_expected) : "q"(c) : "cc");       \
            result = memory_##type;                                                                        \
            unsigned flags = zero, expected = zero_expected;                                               \
            CHECK("cmpxchg", 0xffff, a == b)                                                               \
            memory_##type = reference = values[x];                                                         \
            a = b = values[y];                                                                             \
            __asm__ volatile("lock xadd %1, %0\n\tsetc %2" : "+m"(memory_##type), "+q"(a), "=q"(zero) : : "cc");                 \
            __asm__ volatile("xadd %1, %0\n\tsetc %2" : "+q"(reference), "+q"(b), "=q"(zero_expected) : : "cc");                 \
            result = memory_##type;                                                                        \
            flags = zero, expected = zero_expected;                                                        \
            CHECK("xadd", 0xffff, a == b)                                                                  \
        }

#define SIZE(type, s)                                                                                      \
    BINARY(type, "add" s, ALL) BINARY(type, "sub" s, ALL) BINARY(type, "adc" s, ALL) BINARY(type, "sbb" s, ALL) \
    BINARY(type, "and" s, SZPC) BINARY(type, "or" s, SZPC) BINARY(type, "xor" s, SZPC) BINARY(type, "cmp" s, ALL) \
    BINARY(type, "mov" s, ALL)                                                                             \
    UNARY(type, "", "inc" s, ALL) UNARY(type, "", "dec" s, ALL) UNARY(type, "", "neg" s, ALL) UNARY(type, "", "not" s, ALL) \
    UNARY(type, "lock; ", "inc" s, ALL) UNARY(type, "lock; ", "neg" s, ALL)                                                                  \
    SHIFT(type, "shl" s, NONE) SHIFT(type, "shr" s, NONE) SHIFT(type, "sar" s, NONE)                       \
    SHIFT(type, "rol" s, CARRY) SHIFT(type, "ror" s, CARRY) SHIFT(type, "rcl" s, CARRY) SHIFT(type, "rcr" s, CARRY) \
    EXCHANGE(type)

int main(void)
{
    SIZE(u8, "b")
    SIZE(u16, "w")
    SIZE(u32, "l")
    SIZE(u64, "q")
    SET("o") SET("b") SET("z") SET("be") SET("s") SET("p") SET("l") SET("le")
    SET("no") SET("ae") SET("nz") SET("a") SET("ns") SET("np") SET("ge") SET("g")
    printf("%ld operations, %ld wrong\n", operations, wrong);
    return wrong != 0;
}
