// The mechanism of MadT's sections II-A and III-D, to be measured beside memtap's: SIGSEGV opens the page and sets the
// trap flag, the instruction runs, SIGTRAP closes the page and clears the flag. Two signals and two mprotects an access.
//
// LD_PRELOADed; it follows memtap.h, so that the same kernel runs under it and under memtap. It traces data and bss of
// the program and [heap] as they are at memtap_start. One thread; system calls with pointers into traced memory fail,
// as they did in the paper's tool without its wrappers. At memtap_stop it writes the number of accesses to stderr.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096ul
#define TRAP_FLAG 0x100
#define WRITE_FAULT 2

struct record {
    void *instruction, *address;
    char kind;
};

static struct { unsigned long start, end; } regions[64];
static int regions_len, log_fd;
static struct record log_buffer[1 << 16];
static unsigned long logged, accesses;
static unsigned long opened[8];
static int opened_len;

static void on_segv(int number, siginfo_t *info, void *context)
{
    ucontext_t *state = context;
    unsigned long page = (unsigned long)info->si_addr & -PAGE;
    int traced = 0;
    for (int i = 0; i < regions_len; i++)
        traced |= page >= regions[i].start && page < regions[i].end;
    if (!traced || opened_len == 8) {
        signal(number, SIG_DFL);
        return;
    }
    // A second page of the same instruction is part of the same access.
    if (!opened_len) {
        struct record *record = &log_buffer[logged++];
        record->instruction = (void *)state->uc_mcontext.gregs[REG_RIP];
        record->address = info->si_addr;
        record->kind = state->uc_mcontext.gregs[REG_ERR] & WRITE_FAULT ? 'S' : 'L';
        accesses++;
    }
    mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE);
    opened[opened_len++] = page;
    state->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    ucontext_t *state = context;
    while (opened_len)
        mprotect((void *)opened[--opened_len], PAGE, PROT_NONE);
    state->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    if (logged == sizeof log_buffer / sizeof *log_buffer) {
        if (write(log_fd, log_buffer, sizeof log_buffer) < 0)
            _exit(1);
        logged = 0;
    }
}

static void protect(int rights)
{
    for (int i = 0; i < regions_len; i++)
        if (mprotect((void *)regions[i].start, regions[i].end - regions[i].start, rights))
            _exit(1);
}

__attribute__((visibility("default"))) void memtap_start(void)
{
    char line[512], program[256];
    long len = readlink("/proc/self/exe", program, sizeof program - 1);
    FILE *maps = fopen("/proc/self/maps", "r");
    if (len < 0 || !maps)
        _exit(1);
    program[len] = 0;
    log_fd = open("/dev/null", O_WRONLY);
    unsigned long previous_end = 0;
    int previous = 0;
    while (fgets(line, sizeof line, maps) && regions_len < 64) {
        unsigned long start, end;
        char rights[8], path[256] = "";
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &start, &end, rights, path) < 3)
            continue;
        // bss is the anonymous mapping directly after data.
        int own = !strcmp(path, program) || !strcmp(path, "[heap]") || (!*path && previous && start == previous_end);
        previous = own;
        previous_end = end;
        if (own && !strcmp(rights, "rw-p")) {
            regions[regions_len].start = start;
            regions[regions_len++].end = end;
        }
    }
    fclose(maps);
    struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    action.sa_sigaction = on_trap;
    sigaction(SIGTRAP, &action, 0);
    mprotect(log_buffer, 0, PROT_READ); // bound before the data of the program is closed
    protect(PROT_NONE);
}

__attribute__((visibility("default"))) void memtap_stop(void)
{
    protect(PROT_READ | PROT_WRITE);
    fprintf(stderr, "%lu\n", accesses);
}
