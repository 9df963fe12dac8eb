// SSE loads and stores of every width, memory operands of arithmetic, and x87.
// expect: input size=16 loads=81
// expect: input size=8 loads=40
// expect: input size=4 loads=50
// expect: input size=2 loads=10
// expect: input size=1 loads=10
// expect: output size=16 stores=61
// expect: output size=8 stores=40
// expect: output size=4 loads=4 stores=30
// expect: output size=2 stores=20
// expect: output size=1 stores=10
// expect: real size=4 loads=10 stores=10
// expect: real size=8 loads=10 stores=10
// expect: real size=10 loads=10 stores=10
// expect: whole size=8 loads=10 stores=10
// expect: whole size=4 loads=10 stores=10
// expect: control size=2 loads=10 stores=10
// expect: control size=4 loads=10 stores=10
// stdout: 1 2 3 4
#include <stdio.h>
#include "access.h"

#define IN(op) __asm__ volatile(op : : "m"(input[0]) : "xmm0", "xmm1", "xmm2", "rax", "cc")
#define OUT(op) __asm__ volatile(op : "=m"(output[0]) : : "memory")

unsigned input[16] __attribute__((aligned(64))) = {1, 2, 3, 4, 5, 6, 7, 8};
unsigned output[16] __attribute__((aligned(64)));
union { float single; double twice; unsigned char extended[10]; } real;
union { long quad; int word; } whole;
union { unsigned short x87; unsigned mxcsr; } control;

int main(void)
{
    REPEAT(10) {
        IN("movaps %0, %%xmm0");
        IN("movups %0, %%xmm0");
        IN("movdqa %0, %%xmm0");
        IN("lddqu %0, %%xmm0");
        IN("movaps %0, %%xmm1\n\tpaddd %%xmm1, %%xmm0");
        IN("paddd %0, %%xmm1");
        IN("pshufd $0, %0, %%xmm1");
        IN("pcmpeqb %0, %%xmm1");
        IN("movq %0, %%xmm1");
        IN("movsd %0, %%xmm1");
        IN("movhps %0, %%xmm1");
        IN("addsd %0, %%xmm1");
        IN("movss %0, %%xmm1");
        IN("movd %0, %%xmm1");
        IN("mulss %0, %%xmm1");
        IN("cvtsi2sdl %0, %%xmm1");
        IN("ucomiss %0, %%xmm1");
        IN("pinsrw $1, %0, %%xmm1");
        IN("pinsrb $1, %0, %%xmm1");
        OUT("movaps %%xmm0, %0");
        OUT("movups %%xmm0, %0");
        OUT("movdqa %%xmm0, %0");
        OUT("movdqu %%xmm0, %0");
        OUT("movntdq %%xmm0, %0");
        OUT("movntps %%xmm0, %0");
        OUT("movq %%xmm0, %0");
        OUT("movsd %%xmm0, %0");
        OUT("movlps %%xmm0, %0");
        OUT("movhpd %%xmm0, %0");
        OUT("movss %%xmm0, %0");
        OUT("movd %%xmm0, %0");
        OUT("extractps $1, %%xmm0, %0");
        OUT("pextrb $1, %%xmm0, %0");
        OUT("pextrw $1, %%xmm0, %0");
        OUT("pextrw $0, %%xmm0, %0");

        __asm__ volatile("flds %0\n\tfstps %0" : "+m"(real));
        __asm__ volatile("fldl %0\n\tfstpl %0" : "+m"(real));
        __asm__ volatile("fldt %0\n\tfstpt %0" : "+m"(real));
        __asm__ volatile("fildl %0\n\tfistpl %0" : "+m"(whole));
        __asm__ volatile("fildll %0\n\tfistpll %0" : "+m"(whole));
        __asm__ volatile("fnstcw %0\n\tfldcw %0" : "+m"(control));
        __asm__ volatile("stmxcsr %0\n\tldmxcsr %0" : "+m"(control));
    }
    __asm__ volatile("movaps %1, %%xmm0\n\tmovaps %%xmm0, %0" : "=m"(output[4]) : "m"(input[0]) : "xmm0", "memory");
    for (int i = 4; i < 8; i++)
        printf("%u%c", LOAD(output[i]), i < 7 ? ' ' : '\n');
    return 0;
}
