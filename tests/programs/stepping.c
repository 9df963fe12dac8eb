// Two threads that execute instructions a tracer need not emulate, on the same pages: opened, stepped and closed again,
// none of the threads may meet a page that another one has just closed. Accesses may be missing meanwhile: that is a gap.
// needs: avx512vl avx512bw
// build: -pthread -mavx512vl -mavx512bw
// record: --allow-gaps
// lackey: no
// stdout: 40000 40000 0
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include "access.h"

static char *area;
static long done[2], wrong[2];

static void *work(void *argument)
{
    long me = (long)argument;
    unsigned x = me;
    char image[512] __attribute__((aligned(16)));
    __asm__ volatile("kxnord %%k2, %%k2, %%k2" : : : "memory");
    for (int i = 0; i < 20000; i++) {
        unsigned equal;
        x = x * 1664525 + 1013904223;
        char *place = area + (x >> 14) % (60 * 4096);
        __asm__ volatile("vmovdqu64 (%1), %%ymm17\n\t"
                         "vpcmpeqb (%1), %%ymm17, %%k1%{%%k2%}\n\t"
                         "kmovd %%k1, %0"
                         : "=r"(equal) : "r"(place) : "xmm17", "memory");
        wrong[me] += equal != 0xffffffff;
        done[me]++;
        if (i % 16 == 0)
            __asm__ volatile("fxsave64 (%1)\n\tfxrstor64 (%0)\n\tfxsave64 (%0)" : : "r"(area + 61 * 4096 + 512 * me), "r"(image) : "memory");
        done[me]++;
    }
    return 0;
}

int main(void)
{
    pthread_t other;
    area = mmap(0, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 60 * 4096; i++)
        area[i] = i * 7;
    __asm__ volatile("fxsave64 (%0)\n\tfxsave64 512(%0)" : : "r"(area + 61 * 4096) : "memory");
    pthread_create(&other, 0, work, (void *)1);
    work((void *)0);
    pthread_join(other, 0);
    printf("%ld %ld %ld\n", done[0], done[1], wrong[0] + wrong[1]);
    return 0;
}
