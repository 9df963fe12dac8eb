// differ SEED STEPS [verbose]: takes those steps (`3`, `0-99`, `2,5,7-9`) of that seed.
#define _GNU_SOURCE
#include "differ.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

uint64_t draw(struct random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

uint64_t below(struct random *random, uint64_t n)
{
    return draw(random) % n;
}

bool one_in(struct random *random, uint64_t n)
{
    return below(random, n) == 0;
}

bool verbose;

static char line[16384];
static size_t said;

void say(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int count = vsnprintf(line + said, sizeof line - said, format, values);
    va_end(values);
    said += (size_t)count < sizeof line - said ? (size_t)count : sizeof line - said - 1;
}

void flush_line(void)
{
    size_t written = 0;
    while (written < said) {
        ssize_t count = write(1, line + written, said - written);
        if (count <= 0)
            _exit(99);
        written += (size_t)count;
    }
    said = 0;
}

uint64_t hash(const void *bytes, size_t count)
{
    const uint8_t *each = bytes;
    uint64_t value = 0xcbf29ce484222325;
    for (; count >= 8; count -= 8, each += 8) {
        uint64_t word;
        memcpy(&word, each, 8);
        value = (value ^ word) * 0x9e3779b97f4a7c15;
        value ^= value >> 29;
    }
    for (; count > 0; count--, each++)
        value = (value ^ *each) * 0x100000001b3;
    return value;
}

void fill_open(struct random *random)
{
    uint64_t *words = (uint64_t *)OPEN;
    for (int i = 0; i < OPEN_BYTES / 8; i++)
        words[i] = draw(random);
}

uint64_t hash_open(void)
{
    return hash(OPEN, OPEN_BYTES);
}

static sigjmp_buf back;
static volatile sig_atomic_t expected;
static struct fault caught;

static void catch(int signal, siginfo_t *info, void *context)
{
    if (!expected) {
        say(" unexpected signal %d code %d", signal, info->si_code);
        flush_line();
        _exit(98);
    }
    // In the order of the numbers that instructions have for them.
    static const int ORDER[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    for (int i = 0; i < 16; i++)
        caught.registers[i] = (uint64_t)registers[ORDER[i]];
    caught.instruction = (uint64_t)registers[REG_RIP];
    caught.flags = (uint64_t)registers[REG_EFL];
    caught.signal = signal;
    caught.code = info->si_code;
    caught.address = signal == SIGSEGV || signal == SIGBUS ? (uint64_t)info->si_addr : 0;
    siglongjmp(back, 1);
}

static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
enum { FAULT_COUNT = sizeof FAULTS / sizeof *FAULTS };

bool faults(void (*function)(void *), void *argument, struct fault *fault)
{
    struct sigaction before[FAULT_COUNT];
    struct sigaction action = {.sa_sigaction = catch, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    static uint8_t stack[65536];
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack}, old;
    sigaltstack(&own, &old);
    for (int i = 0; i < FAULT_COUNT; i++)
        sigaction(FAULTS[i], &action, &before[i]);
    volatile bool did = false;
    expected = 1;
    if (sigsetjmp(back, 1) == 0)
        function(argument);
    else
        did = true;
    expected = 0;
    for (int i = 0; i < FAULT_COUNT; i++)
        sigaction(FAULTS[i], &before[i], NULL);
    sigaltstack(&old, NULL);
    *fault = caught;
    return did;
}

static void map(uint8_t *where, size_t bytes, int protection)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap(where, bytes, protection, flags, -1, 0) != where) {
        perror("differ: memory at its address");
        exit(97);
    }
}

static const struct {
    const char *name;
    void (*take)(struct random *);
    // Of a hundred steps.
    unsigned share;
} KINDS[] = {
    {"call", step_call, 50},        {"mappings", step_mappings, 12},   {"code", step_code, 24},
    {"signals", step_signals, 10}, {"processes", step_processes, 4},
};

static void take(uint64_t seed, uint64_t step)
{
    struct random random = {.state = seed * 0x2545f4914f6cdd1d ^ step << 20};
    uint64_t at = below(&random, 100);
    unsigned kind = 0;
    while (at >= KINDS[kind].share)
        at -= KINDS[kind++].share;
    say("%llu %s:", (unsigned long long)step, KINDS[kind].name);
    KINDS[kind].take(&random);
    say("\n");
    flush_line();
}

int main(int count, char **words)
{
    if (count < 3) {
        fprintf(stderr, "usage: differ SEED STEPS [verbose], as in differ 7 0-99,120\n");
        return 2;
    }
    if (strcmp(words[1], "state") == 0) {
        show_state();
        return 0;
    }
    verbose = count > 3;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    map(OPEN, OPEN_BYTES, PROT_READ | PROT_WRITE);
    map(CLOSED, PAGE, PROT_NONE);
    map(READABLE, PAGE, PROT_READ);
    uint64_t seed = strtoull(words[1], NULL, 10);
    for (char *rest = words[2]; *rest != 0;) {
        uint64_t first = strtoull(rest, &rest, 10), last = first;
        if (*rest == '-')
            last = strtoull(rest + 1, &rest, 10);
        for (uint64_t step = first; step <= last; step++)
            take(seed, step);
        if (*rest != ',')
            break;
        rest++;
    }
    return 0;
}
