// A program that has reserved all addresses below 2 GiB before anything of ours runs in it, as Chromium does: calls and returns by
// pointer find their targets all the same.
// lackey: no
// stdout: 31800 2016
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "access.h"

#define PIECE (16l << 20)

static long total;

static void reserved(void) { total++; }

/* The loader asks for this before it calls the first constructor. The C library may not be linked yet. */
static void (*reserve(void))(void)
{
    for (long at = PIECE; at < 128 * PIECE; at += PIECE) {
        register long flags __asm__("r10") = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        register long descriptor __asm__("r8") = -1;
        register long offset __asm__("r9") = 0;
        long result = SYS_mmap;
        __asm__ volatile("syscall" : "+a"(result) : "D"(at), "S"(PIECE), "d"(PROT_NONE), "r"(flags), "r"(descriptor), "r"(offset)
                         : "rcx", "r11", "memory");
    }
    return reserved;
}

void indirect(void) __attribute__((ifunc("reserve")));

#define ONE(n) static long add##n(long x) { return x + n; }
#define FOUR(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3)
FOUR(1) FOUR(2) FOUR(3) FOUR(4)
#define FOUR_NAMES(n) add##n##0, add##n##1, add##n##2, add##n##3
static long (*const adders[])(long) = {FOUR_NAMES(1), FOUR_NAMES(2), FOUR_NAMES(3), FOUR_NAMES(4)};

static int by_value(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

int main(void)
{
    long sum = 0;
    indirect();
    for (int turn = 0; turn < 1200; turn++) sum = adders[turn % 16](sum) & 0xffff;
    int *values = malloc(64 * sizeof *values);
    for (int i = 0; i < 64; i++) STORE(values[i], i * 37 % 64);
    qsort(values, 64, sizeof *values, by_value);
    long checked = 0;
    for (int i = 0; i < 64; i++) checked += values[i] == i ? i : 1000;
    free(values);
    printf("%ld %ld\n", sum, checked);
    return total == 1 ? 0 : 1;
}
