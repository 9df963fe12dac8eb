// Signals that the tracers live on, sent by the program to itself and raised by instructions: the handler runs before the
// call returns, each time with the code that it has natively.
// lackey: no
// stdout: SIGTRAP -6 0 128 128, SIGSEGV -6 0 -1 1, SIGSYS -6 0
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static volatile sig_atomic_t code;

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    code = info->si_code;
    if (info->si_code == SEGV_MAPERR)
        // The load from nowhere, which is three bytes long.
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 3;
}

static int came(void)
{
    int now = code;
    code = 1000;
    return now;
}

int main(void)
{
    struct sigaction action;
    union sigval value = {0};
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, 0);
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGSYS, &action, 0);
    raise(SIGTRAP);
    printf("SIGTRAP %d", came());
    kill(getpid(), SIGTRAP);
    printf(" %d", came());
    __asm__ volatile("int3");
    printf(" %d", came());
    __asm__ volatile(".byte 0xcd, 3");
    printf(" %d", came());
    raise(SIGSEGV);
    printf(", SIGSEGV %d", came());
    kill(getpid(), SIGSEGV);
    printf(" %d", came());
    sigqueue(getpid(), SIGSEGV, value);
    printf(" %d", came());
    __asm__ volatile("mov (%%rax), %%rax" : : "a"(16) : "memory");
    printf(" %d", came());
    raise(SIGSYS);
    printf(", SIGSYS %d", came());
    kill(getpid(), SIGSYS);
    printf(" %d\n", came());
    return 0;
}
