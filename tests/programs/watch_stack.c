// The stacks of hits: recursion without frame pointers, a signal's handler on a stack of its own, a callback of the C
// library, memcpy, and what the kernel writes.
// build: -fomit-frame-pointer -fno-optimize-sibling-calls -fno-inline
// stdout: done
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile int deep, handled, compared;
char copied[8], filled[8];
static volatile unsigned long bytes = 8;

static int descend(int depth)
{
    if (depth == 0) {
        deep = 1;
        return 0;
    }
    return descend(depth - 1) + 1;
}

static void on_signal(int signal)
{
    handled = signal;
}

static int compare(const void *a, const void *b)
{
    compared = 1;
    return *(const int *)a - *(const int *)b;
}

static void copy(const char *from)
{
    memcpy(copied, from, bytes);
}

static void fill(int file)
{
    if (read(file, filled, bytes) != 8)
        abort();
}

int main(void)
{
    static char stack[1 << 16];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    int values[2] = {2, 1}, ends[2];
    sigaltstack(&other, 0);
    sigaction(SIGUSR1, &action, 0);
    descend(3);
    raise(SIGUSR1);
    qsort(values, 2, sizeof *values, compare);
    copy("1234567");
    if (pipe(ends) || write(ends[1], "abcdefg", 8) != 8)
        abort();
    fill(ends[0]);
    puts("done");
    return 0;
}
