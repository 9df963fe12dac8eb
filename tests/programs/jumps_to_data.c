// Jumps to memory that can't be executed fault as natively, whatever it is: open or closed, made at run time, robbed of the right,
// or the second page of one instruction.
// lackey: no
// expect: counter size=4 modifies=36
// stdout: 33 faults, 3 runs, 0 wrong
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include "access.h"

#define PAGE 4096
#define RW (PROT_READ | PROT_WRITE)
#define RX (PROT_READ | PROT_EXEC)

int counter;
static unsigned char data[64] = {0xc3}, bss[64];
static const unsigned char constant[64] = {0xc3};
static sigjmp_buf back;
static volatile int faults, runs, wrong;
static char *volatile address, *volatile instruction;
static volatile int code;

static void on_segv(int signal, siginfo_t *info, void *context)
{
    ucontext_t *state = context;
    address = info->si_addr;
    instruction = (char *)state->uc_mcontext.gregs[REG_RIP];
    code = signal == SIGSEGV ? info->si_code : -1;
    siglongjmp(back, 1);
}

// Calls it right after an access, and again after none.
static void call(const void *target)
{
    MODIFY("incl", counter);
    ((void (*)(void))target)();
    runs++;
}

// The call faults at `at`, while the instruction at `ip` is fetched.
static void refused(const void *target, const void *ip, const void *at, int expected)
{
    if (!sigsetjmp(back, 1)) {
        call(target);
        wrong++;
        return;
    }
    faults++;
    if (address != at || instruction != ip || code != expected) {
        fprintf(stderr, "%p: fault at %p of %p, code %d\n", target, address, instruction, code);
        wrong++;
    }
}

static void data_at(const void *target)
{
    for (int i = 0; i < 2; i++)
        refused(target, target, target, SEGV_ACCERR);
}

static char *map(long pages, int prot, int flags, int fd)
{
    char *at = mmap(0, pages * PAGE, prot, flags, fd, 0);
    if (at == MAP_FAILED)
        exit(3);
    return at;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    unsigned char stack[64] = {0xc3};
    *(volatile unsigned char *)stack = 0xc3;
    data_at(stack);
    bss[0] = 0xc3;
    data_at(data), data_at(bss), data_at(constant);
    unsigned char *heap = malloc(64);
    *(volatile unsigned char *)heap = 0xc3;
    data_at(heap);

    const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    char *memory = map(3, RW, anonymous, -1);
    memory[0] = memory[16] = (char)0xc3;
    data_at(memory);
    char *shared = map(1, RW, MAP_SHARED | MAP_ANONYMOUS, -1);
    *(volatile char *)shared = (char)0xc3;
    data_at(shared);
    char *untouched = map(1, PROT_READ, anonymous, -1);
    data_at(untouched);
    data_at(map(1, PROT_NONE, anonymous, -1));
    int fd = open("/proc/self/exe", O_RDONLY);
    data_at(map(1, PROT_READ, MAP_PRIVATE, fd));
    data_at(map(1, RW, MAP_PRIVATE, fd));
    char *gone = map(1, RW, anonymous, -1);
    munmap(gone, PAGE);
    for (int i = 0; i < 2; i++)
        refused(gone, gone, gone, SEGV_MAPERR);

    // It gets the right, and loses it.
    mprotect(memory, PAGE, RX);
    call(memory);
    mprotect(memory, PAGE, RW);
    data_at(memory);
    data_at(memory + 16);
    // The end of a page: an instruction goes on in data, or the next one is data. (mov $imm32,%eax; ret)
    memcpy(memory + PAGE - 2, "\xb8\x01\x02\x03\x04\xc3", 6);
    memory[2 * PAGE - 1] = (char)0x90, memory[2 * PAGE] = (char)0xc3;
    mprotect(memory, PAGE, RX);
    refused(memory + PAGE - 2, memory + PAGE - 2, memory + PAGE, SEGV_ACCERR);
    mprotect(memory + PAGE, PAGE, RX);
    call(memory + PAGE - 2);
    refused(memory + 2 * PAGE - 1, memory + 2 * PAGE, memory + 2 * PAGE, SEGV_ACCERR);
    mprotect(memory + 2 * PAGE, PAGE, RX);
    call(memory + 2 * PAGE - 1);
    // Another mapping takes its place.
    mmap(memory, PAGE, RW, anonymous | MAP_FIXED, -1, 0);
    *(volatile char *)memory = (char)0xc3;
    refused(memory, memory, memory, SEGV_ACCERR);
    data_at(memory);
    printf("%d faults, %d runs, %d wrong\n", faults, runs, wrong);
    return wrong;
}
