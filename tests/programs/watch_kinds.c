// Every way in which an instruction, a copy or the kernel accesses watched bytes: each function makes the accesses that its
// name says, of bytes that begin before the watched ones or in them.
// build: -fno-inline -fno-stack-protector -mavx -no-pie
// stdout: done
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Watched: four bytes on the second page, and all of the others.
char wall[8192] __attribute__((aligned(4096)));
volatile char bytes[64];
unsigned long stack[64], target[1];
char text[64], image[512] __attribute__((aligned(64)));
static volatile unsigned long count = 8;

#define FUNCTION __attribute__((noinline, noclone)) static void

FUNCTION across_pages(void)
{
    *(volatile unsigned long *)(wall + 4092) = 0x1122334455667788;
}

FUNCTION in_front(void)
{
    *(volatile unsigned int *)(wall + 4092) = 1;
    wall[4100] = 1;
}

FUNCTION one_byte(void)
{
    bytes[3] = 7;
}

FUNCTION modify(void)
{
    asm volatile("lock addl $5, %0" : "+m"(bytes[4])::"cc");
}

FUNCTION exchange(void)
{
    unsigned expected = 99;
    asm volatile("lock cmpxchgl %2, %1" : "+a"(expected), "+m"(bytes[4]) : "r"(1) : "cc");
}

FUNCTION vector(void)
{
    _mm_storeu_ps((float *)(wall + 4090), _mm_castsi128_ps(_mm_set1_epi8(0x55)));
}

FUNCTION masked(void)
{
    __m128i mask = _mm_setr_epi32(-1, 0, 0, -1);
    _mm_maskstore_ps((float *)(wall + 4088), mask, _mm_castsi128_ps(_mm_set1_epi8(0x66)));
    mask = _mm_setr_epi32(0, 0, -1, 0);
    _mm_maskstore_ps((float *)(wall + 4088), mask, _mm_castsi128_ps(_mm_set1_epi8(0x77)));
}

FUNCTION far_bit(void)
{
    asm volatile("btsl %1, %0" : "+m"(bytes[0]) : "r"(8 * 40 + 1) : "cc", "memory");
}

FUNCTION filled_by_rep(void)
{
    char *to = text + 8;
    unsigned long left = 2;
    asm volatile("rep stosw" : "+D"(to), "+c"(left) : "a"(0x4241) : "memory");
}

FUNCTION copied_backwards(void)
{
    const char *from = "ab" + 1;
    char *to = text + 17;
    unsigned long left = 2;
    asm volatile("std; rep movsb; cld" : "+D"(to), "+S"(from), "+c"(left)::"memory", "cc");
}

FUNCTION compared_by_rep(void)
{
    const char *from = "xxx";
    const char *to = text + 32;
    unsigned long left = 3;
    asm volatile("repe cmpsb" : "+D"(to), "+S"(from), "+c"(left)::"memory", "cc");
}

FUNCTION pushes_and_pops(void)
{
    asm volatile("mov %%rsp, %%r12; lea %0, %%rsp; push $5; pop %%rax; mov %%r12, %%rsp"
                 : "+m"(stack[32])::"rax", "r12", "memory");
}

asm("returns: ret");

FUNCTION calls_and_returns(void)
{
    asm volatile("mov %%rsp, %%r12; lea %0, %%rsp; call returns; mov %%r12, %%rsp"
                 : "+m"(stack[16])::"r12", "memory");
}

FUNCTION jumps_through_memory(void)
{
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; jmp *%0; ud2; 1:" : "+m"(target[0])::"rax", "memory");
}

FUNCTION saves_state(void)
{
    asm volatile("fxsave %0" : "=m"(image)::"memory");
}

FUNCTION copies(void)
{
    memcpy(text + 40, "12345678", count);
}

FUNCTION kernel_writes(void)
{
    int ends[2];
    if (pipe(ends) || write(ends[1], "ABCDEFGH", 8) != 8 || read(ends[0], text + 48, count) != 8)
        abort();
}

int main(void)
{
    across_pages();
    in_front();
    one_byte();
    modify();
    exchange();
    vector();
    masked();
    far_bit();
    filled_by_rep();
    copied_backwards();
    compared_by_rep();
    pushes_and_pops();
    calls_and_returns();
    jumps_through_memory();
    saves_state();
    copies();
    kernel_writes();
    puts("done");
    return 0;
}
