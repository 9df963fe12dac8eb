// Integer accesses of every size and addressing form.
// expect: byte size=1 loads=101 stores=101
// expect: half size=2 loads=201 stores=201
// expect: word size=4 loads=301 stores=301
// expect: quad size=8 loads=401 stores=401
// expect: extended_byte size=1 loads=50
// expect: extended_half size=2 loads=40
// expect: extended_word size=4 loads=10
// expect: operand size=4 loads=80 stores=10
// expect: operand size=8 loads=40
// expect: table size=8 loads=64 stores=32
// expect: pushed size=8 loads=10 stores=10
// expect: target size=8 loads=20
// expect: untouched size=8
// stdout: 100 200 300 400 120
#include <stdio.h>
#include "access.h"

unsigned char byte;
unsigned short half;
unsigned word;
unsigned long quad;
signed char extended_byte = -1;
short extended_half = -2;
int extended_word = -3;
unsigned operand[4] = {7, 7, 7, 7};
unsigned long table[64];
unsigned long pushed = 5;
unsigned long untouched = 9;
static void callee(void) {}
void (*target)(void) = callee;

int main(void)
{
    unsigned long sum = 0, r, s, t;
    STORE_BYTE(byte, 0);
    STORE(half, 0);
    STORE(word, 0);
    STORE(quad, 0);
    REPEAT(100) STORE_BYTE(byte, LOAD_BYTE(byte) + 1);
    REPEAT(200) STORE(half, LOAD(half) + 1);
    REPEAT(300) STORE(word, LOAD(word) + 1);
    REPEAT(400) STORE(quad, LOAD(quad) + 1);

    REPEAT(10) {
        __asm__ volatile("movzbl %1, %k0" : "=r"(r) : "m"(extended_byte));
        __asm__ volatile("movsbq %1, %0" : "=r"(r) : "m"(extended_byte));
        __asm__ volatile("movsbw %1, %w0" : "=r"(r) : "m"(extended_byte));
        __asm__ volatile("movzbw %1, %w0" : "=r"(r) : "m"(extended_byte));
        __asm__ volatile("movsbl %1, %k0" : "=r"(r) : "m"(extended_byte));
        __asm__ volatile("movzwl %1, %k0" : "=r"(r) : "m"(extended_half));
        __asm__ volatile("movswl %1, %k0" : "=r"(r) : "m"(extended_half));
        __asm__ volatile("movswq %1, %0" : "=r"(r) : "m"(extended_half));
        __asm__ volatile("movzwq %1, %0" : "=r"(r) : "m"(extended_half));
        __asm__ volatile("movslq %1, %0" : "=r"(r) : "m"(extended_word));

        r = s = 3;
        __asm__ volatile("addl %1, %k0" : "+r"(r) : "m"(operand[0]) : "cc");
        __asm__ volatile("cmpl $7, %0" : : "m"(operand[1]) : "cc");
        __asm__ volatile("testl $7, %0" : : "m"(operand[1]) : "cc");
        __asm__ volatile("imull %1, %k0" : "+r"(r) : "m"(operand[2]) : "cc");
        __asm__ volatile("imull $3, %1, %k0" : "=r"(r) : "m"(operand[2]) : "cc");
        __asm__ volatile("cmovel %1, %k0" : "+r"(r) : "m"(operand[3]) : "cc");
        __asm__ volatile("movl $7, %0" : "=m"(operand[3]));
        __asm__ volatile("mull %3" : "=a"(r), "=d"(s) : "0"(2ul), "m"(operand[0]) : "cc");
        __asm__ volatile("xorl %%edx, %%edx\n\tdivl %1" : "+a"(r) : "m"(operand[0]) : "rdx", "cc");
        t = 0;
        __asm__ volatile("addq %1, %0" : "+r"(t) : "m"(operand[0]) : "cc");
        __asm__ volatile("subq %1, %0" : "+r"(t) : "m"(operand[2]) : "cc");
        __asm__ volatile("btq $3, %0" : : "m"(operand[0]) : "cc");
        __asm__ volatile("bsfq %1, %0" : "=r"(t) : "m"(operand[0]) : "cc");

        __asm__ volatile("pushq %0\n\tpopq %%rax" : : "m"(pushed) : "rax", "memory");
        __asm__ volatile("pushq $6\n\tpopq %0" : "=m"(pushed) : : "memory");
        __asm__ volatile("lea -128(%%rsp), %%rsp\n\tcall *%0\n\tlea 128(%%rsp), %%rsp" : : "m"(target) : "memory");
        __asm__ volatile("leaq 1f(%%rip), %%rax\n\tmovq %0, %%rcx\n\tjmp *%%rax\n1:" : : "m"(target) : "rax", "rcx");
        __asm__ volatile("leaq %1, %0" : "=r"(t) : "m"(untouched));
    }
    // Base, index and scale; displacement alone; negative index.
    for (unsigned long i = 0; i < 32; i++) {
        __asm__ volatile("movq %0, table(,%0,8)" : : "r"(i) : "memory");
        __asm__ volatile("movq 256(%1,%2,8), %0" : "=r"(t) : "r"(table), "r"(i) : "memory");
        __asm__ volatile("movq (%1,%2,8), %0" : "=r"(t) : "r"(table + 32), "r"(-1 - (long)i) : "memory");
        sum += t;
    }
    printf("%u %u %u %lu %lu\n", LOAD_BYTE(byte), LOAD(half), LOAD(word), LOAD(quad), sum);
    return 0;
}
