// The cost of one SIGSEGV that does nothing: fault, handler, return to the next instruction. Prints ns a round trip.
// usage: empty_sigsegv TRIPS
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

static void skip(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    // The instruction below has three bytes.
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 3;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int count, char **arguments)
{
    long trips = count > 1 ? atol(arguments[1]) : 200000;
    char *closed = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_sigaction = skip, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    double start = now();
    for (long i = 0; i < trips; i++)
        __asm__ volatile(".byte 0x48, 0x8b, 0x08" : : "a"(closed) : "rcx", "memory"); // movq (%rax), %rcx
    printf("%.1f\n", (now() - start) / trips);
    return 0;
}
