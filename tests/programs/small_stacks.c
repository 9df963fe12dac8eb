// Eight threads, one after the other, on stacks of 8 KiB as Go's have, with nothing mapped below.
// lackey: no
// stat: threads=9
// expect: begun size=4 loads=1 modifies=8
// stdout: 8
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "access.h"

#define STACK 8192
#define TLS 8192

int begun;

static int work(void *unused)
{
    (void)unused;
    MODIFY("lock incl", begun);
    for (;;)
        __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(0) : "rcx", "r11", "memory");
}

int main(void)
{
    for (int n = 0; n < 8; n++) {
        char *pages = mmap(0, 4096 + STACK + TLS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED || mprotect(pages + 4096, STACK + TLS, PROT_READ | PROT_WRITE))
            return 1;
        char *stack = pages + 4096 + STACK;
        /* What lies at a thread pointer lies on both sides of it. */
        char *pointer = stack + TLS / 2;
        *(char **)pointer = pointer;
        volatile int lives = 1;
        int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS
            | CLONE_CHILD_CLEARTID;
        if (clone(work, stack, flags, 0, 0, pointer, &lives) < 0)
            return 2;
        while (lives)
            usleep(100);
    }
    printf("%d\n", begun);
    return 0;
}
