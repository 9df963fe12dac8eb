// Much more memory reserved than there is, as language runtimes do it, and a little of it used.
// lackey: no
// expect: <memmap@reserve> size=8 loads=64 stores=64
// stderr: 2016 0
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include "access.h"

#define SIZE (1l << 40)

__attribute__((noinline, noclone)) static char *reserve(void)
{
    return mmap(0, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int main(void)
{
    char *area = reserve();
    long sum = 0, wrong = area == MAP_FAILED;
    // Committed piece by piece, far apart.
    for (long i = 0; i < 64; i++) {
        char *piece = area + i * (SIZE / 64);
        wrong += mprotect(piece, 65536, PROT_READ | PROT_WRITE) != 0;
        STORE(*(long *)piece, i);
    }
    for (long i = 0; i < 64; i++)
        sum += LOAD(*(long *)(area + i * (SIZE / 64)));
    wrong += madvise(area, 65536, MADV_DONTNEED) != 0;
    wrong += munmap(area, SIZE) != 0;
    fprintf(stderr, "%ld %ld\n", sum, wrong);
    return 0;
}
