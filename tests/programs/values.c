// What accesses read and write: each size, what memory held and what it holds afterwards.
// translate: only
#include <stdint.h>

uint8_t byte;
uint16_t half;
uint32_t word;
uint64_t wide;
double real;
long double extended;
uint8_t from[40] = "0123456789abcdefghijklmnopqrstuvwxyz", to[40];
uint64_t pair[2] __attribute__((aligned(16)));

int main(void)
{
    __asm__ volatile("movb $0x12, %0" : "=m"(byte));
    __asm__ volatile("movw $0x3456, %0" : "=m"(half));
    __asm__ volatile("movl $0x789abcde, %0" : "=m"(word));
    __asm__ volatile("movabs $0x1122334455667788, %%rax; movq %%rax, %0" : "=m"(wide) : : "rax");
    __asm__ volatile("fld1; fstpl %0" : "=m"(real));
    __asm__ volatile("fld1; fchs; fstpt %0; fldt %0; fstp %%st(0)" : "=m"(extended));
    // A modify tells what is there afterwards.
    __asm__ volatile("incl %0" : "+m"(word));
    __asm__ volatile("xchgw %w1, %0" : "+m"(half) : "r"(0x7777));
    uint32_t five = 5;
    __asm__ volatile("lock xaddl %1, %0" : "+m"(word), "+r"(five));
    // Neither of these stores: one compares, the other one finds another value, and writes back what was there.
    __asm__ volatile("cmpq $1, %0" : : "m"(wide));
    __asm__ volatile("xorl %%eax, %%eax; lock cmpxchgq %1, %0" : "+m"(wide) : "r"(9ul) : "rax", "cc");
    // The address is that before the instruction, whatever that makes of its registers.
    uint64_t *at = &wide;
    __asm__ volatile("movq (%0), %0" : "+r"(at) : : "memory");
    __asm__ volatile("pushq %0; popq %1" : : "m"(wide), "m"(pair[1]) : "memory");
    // Sixteen bytes at once, and two strings of three.
    __asm__ volatile("movdqu %1, %%xmm0; movdqu %%xmm0, %0" : "=m"(*(__int128 *)to) : "m"(*(__int128 *)from) : "xmm0");
    uint8_t *source = from + 10, *target = to + 20;
    uint64_t count = 3;
    __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
    count = 3;
    target = to + 19;
    __asm__ volatile("rep stosb" : "+D"(target), "+c"(count) : "a"('#') : "memory");
    return 0;
}
