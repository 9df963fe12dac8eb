// The program's own SIGSEGV and SIGTRAP handlers see its own faults, with the right addresses, and nothing else.
// lackey: no
// expect: before size=4 stores=10
// expect: in_handler size=4 loads=1 modifies=113
// expect: after size=4 stores=10
// stdout: null 10, guarded 100, traps 3, total 113
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include "access.h"

int before, in_handler, after;
static sigjmp_buf back;
static char *guarded;
static volatile int nulls, guards, traps, wrong;

static void on_segv(int signal, siginfo_t *info, void *context)
{
    (void)context;
    MODIFY("incl", in_handler);
    if (signal != SIGSEGV)
        wrong++;
    char *address = info->si_addr;
    if (guarded && address >= guarded && address < guarded + 100 * 4096) {
        // A write barrier as garbage collectors have it: open the page and try again.
        if (info->si_code != SEGV_ACCERR)
            wrong++;
        guards++;
        mprotect((void *)((unsigned long)address & -4096ul), 4096, PROT_READ | PROT_WRITE);
        return;
    }
    if (address != (char *)16 || info->si_code != SEGV_MAPERR)
        wrong++;
    nulls++;
    siglongjmp(back, 1);
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    ucontext_t *state = context;
    MODIFY("incl", in_handler);
    traps++;
    // Registers changed by the handler reach the program.
    state->uc_mcontext.gregs[REG_RBX] = 42;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    action.sa_sigaction = on_trap;
    sigaction(SIGTRAP, &action, 0);
    REPEAT(10) STORE(before, i_);
    for (volatile int i = 0; i < 10; i++) {
        if (!sigsetjmp(back, 1)) {
            int value;
            __asm__ volatile("movl 16(%1), %0" : "=r"(value) : "r"(0l));
            wrong++;
        }
    }
    guarded = mmap(0, 100 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 100; i++)
        guarded[i * 4096 + i] = i;
    for (int i = 0; i < 100; i++)
        wrong += guarded[i * 4096 + i] != i;
    for (int i = 0; i < 3; i++) {
        long changed = 0;
        __asm__ volatile("xorl %%ebx, %%ebx\n\tint3\n\tmovq %%rbx, %0" : "=r"(changed) : : "rbx");
        wrong += changed != 42;
    }
    REPEAT(10) STORE(after, i_);
    printf("null %d, guarded %d, traps %d, total %d\n", nulls, guards, traps, LOAD(in_handler));
    return wrong;
}
