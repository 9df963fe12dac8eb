// A daemon's habits: closes every descriptor it did not open, resets every signal, empties its environment. None of
// it is memtap's business, and recording goes on.
// lackey: no
// expect: counter size=4 loads=21 stores=20
// stdout: 20
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "access.h"

int counter;

int main(void)
{
    REPEAT(10) STORE(counter, LOAD(counter) + 1);
    for (int fd = 3; fd < 4096; fd++)
        close(fd);
    close_range(3, ~0u, 0);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    clearenv();
    // New mappings after all that.
    int *block = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 16; i++)
        block[i * 1024] = i;
    free(malloc(1 << 20));
    REPEAT(10) STORE(counter, LOAD(counter) + 1);
    printf("%d\n", LOAD(counter));
    return block[15 * 1024] != 15;
}
