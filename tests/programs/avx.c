// AVX and AVX2 accesses: whole registers, parts, masks and gathers. A masked lane that is off is no access.
// needs: avx2
// expect: input size=32 loads=40
// expect: input size=16 loads=40
// expect: input size=8 loads=10
// expect: input size=4 loads=120
// expect: output size=32 stores=40
// expect: output size=16 stores=30
// expect: output size=4 stores=30
// stdout: 36
#include <stdio.h>
#include "access.h"

#define IN(op) __asm__ volatile(op : : "m"(input[0]) : "xmm0", "xmm1", "xmm2")
#define OUT(op) __asm__ volatile(op : "=m"(output[0]) : : "memory")

int input[16] __attribute__((aligned(64))) = {1, 2, 3, 4, 5, 6, 7, 8};
int output[16] __attribute__((aligned(64)));

int main(void)
{
    int sum;
    __asm__ volatile("vpcmpeqd %%ymm7, %%ymm7, %%ymm7\n\tvpsrldq $4, %%xmm7, %%xmm6" : : : "xmm6", "xmm7");
    REPEAT(10) {
        IN("vmovaps %0, %%ymm0");
        IN("vmovups %0, %%ymm0");
        IN("vmovdqu %0, %%ymm1");
        IN("vpaddd %0, %%ymm1, %%ymm2");
        IN("vmovdqa %0, %%xmm1");
        IN("vbroadcastf128 %0, %%ymm1");
        IN("vinsertf128 $1, %0, %%ymm1, %%ymm1");
        IN("vpmovzxwd %0, %%ymm1");
        IN("vbroadcastsd %0, %%ymm1");
        IN("vbroadcastss %0, %%ymm1");
        // Three of four lanes, then eight gathered ones.
        IN("vmaskmovps %0, %%xmm6, %%xmm1");
        __asm__ volatile("vpxor %%ymm3, %%ymm3, %%ymm3\n\tvmovdqa %%ymm7, %%ymm5\n\tvpgatherdd %%ymm5, (%0,%%ymm3,4), %%ymm4"
                         : : "r"(input) : "xmm3", "xmm4", "xmm5", "memory");
        OUT("vmovaps %%ymm0, %0");
        OUT("vmovups %%ymm0, %0");
        OUT("vmovntdq %%ymm0, %0");
        OUT("vmovdqu %%ymm0, %0");
        OUT("vmovdqa %%xmm0, %0");
        OUT("vextractf128 $1, %%ymm0, %0");
        OUT("vextracti128 $0, %%ymm0, %0");
        OUT("vmaskmovps %%xmm0, %%xmm6, %0");
    }
    __asm__ volatile("vphaddd %%ymm0, %%ymm0, %%ymm0\n\tvphaddd %%ymm0, %%ymm0, %%ymm0\n\t"
                     "vextracti128 $1, %%ymm0, %%xmm1\n\tvpaddd %%xmm1, %%xmm0, %%xmm0\n\tvmovd %%xmm0, %0\n\tvzeroupper"
                     : "=r"(sum) : : "xmm0", "xmm1");
    printf("%d\n", sum);
    return 0;
}
