// AVX-512 accesses: whole registers, embedded broadcast, masked lanes, gathers, scatters, compressed stores.
// needs: avx512f avx512vl
// build: -mavx512f -mavx512vl
// lackey: no
// expect: input size=64 loads=20
// expect: input size=4 loads=300
// expect: output size=64 stores=20
// expect: output size=4 loads=2 stores=292
// stdout: 1 16
#include <stdio.h>
#include "access.h"

int input[16] __attribute__((aligned(64))) = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
int output[16] __attribute__((aligned(64)));

int main(void)
{
    __asm__ volatile("kmovw %0, %%k1" : : "r"(0x0fff) : "k1");
    __asm__ volatile("kmovw %0, %%k2" : : "r"(0x8001) : "k2");
    __asm__ volatile("vpternlogd $255, %%zmm7, %%zmm7, %%zmm7" : : : "xmm7");
    REPEAT(10) {
        __asm__ volatile("vmovdqu32 %0, %%zmm0" : : "m"(input[0]) : "xmm0");
        __asm__ volatile("vmovaps %0, %%zmm1" : : "m"(input[0]) : "xmm1");
        __asm__ volatile("vpaddd %0%{1to16%}, %%zmm1, %%zmm2" : : "m"(input[0]) : "xmm2");
        __asm__ volatile("vpbroadcastd %0, %%zmm2" : : "m"(input[0]) : "xmm2");
        // 12 lanes by mask, then 16 gathered.
        __asm__ volatile("vmovdqu32 %0, %%zmm2%{%%k1%}%{z%}" : : "m"(input[0]) : "xmm2");
        __asm__ volatile("kxnorw %%k3, %%k3, %%k3\n\tvpxord %%zmm3, %%zmm3, %%zmm3\n\tvpgatherdd (%0,%%zmm3,4), %%zmm4%{%%k3%}"
                         : : "r"(input) : "xmm3", "xmm4", "k3", "memory");
        __asm__ volatile("vmovdqu32 %%zmm0, %0" : "=m"(output[0]) : : "memory");
        __asm__ volatile("vmovntdq %%zmm0, %0" : "=m"(output[0]) : : "memory");
        // 12 lanes by mask, 12 scattered, two compressed, one whole element.
        __asm__ volatile("vmovdqu32 %%zmm0, %0%{%%k1%}" : "=m"(output[0]) : : "memory");
        __asm__ volatile("kmovw %%k1, %%k3\n\tvpscatterdd %%zmm0, (%0,%%zmm3,4)%{%%k3%}" : : "r"(output) : "k3", "memory");
        __asm__ volatile("vpcompressd %%zmm0, %0%{%%k2%}" : "=m"(output[0]) : : "memory");
        __asm__ volatile("vmovss %%xmm0, %0" : "=m"(output[0]) : : "memory");
        __asm__ volatile("vpcompressd %%zmm0, %0%{%%k2%}" : "=m"(output[0]) : : "memory");
    }
    __asm__ volatile("vpcompressd %%zmm0, %0%{%%k2%}\n\tvzeroupper" : "=m"(output[0]) : : "memory");
    printf("%d %d\n", LOAD(output[0]), LOAD(output[1]));
    return 0;
}
