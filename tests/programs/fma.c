// Fused multiply-add with a memory operand: one access of the whole width. Valgrind makes it one access a lane.
// needs: fma
// lackey: no
// expect: input size=32 loads=10
// expect: input size=16 loads=10
// expect: input size=8 loads=10
// expect: input size=4 loads=10
// stdout: 12
#include <stdio.h>

float input[8] __attribute__((aligned(32))) = {2, 2, 2, 2, 2, 2, 2, 2};

int main(void)
{
    int result;
    float six = 6;
    for (int i = 0; i < 10; i++) {
        __asm__ volatile("vbroadcastss %1, %%ymm1\n\t"
                         "vpxor %%ymm2, %%ymm2, %%ymm2\n\t"
                         "vfmadd231pd %2, %%ymm1, %%ymm3\n\t"
                         "vfmadd213ps %2, %%xmm1, %%xmm3\n\t"
                         "vfnmadd132sd %2, %%xmm1, %%xmm3\n\t"
                         "vfmadd231ss %2, %%xmm1, %%xmm2\n\t"
                         "vcvttss2si %%xmm2, %0\n\tvzeroupper"
                         : "=r"(result) : "m"(six), "m"(input[0]) : "xmm1", "xmm2", "xmm3");
    }
    printf("%d\n", result);
    return 0;
}
