// Thread-local variables work as natively; that accesses to them are not recorded is a limitation (docs/limitations.md).
// build: -pthread
// lackey: no
// stat: threads=5
// expect: merged size=8 loads=1 modifies=4
// stdout: 40000 7
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include "access.h"

long merged;
static __thread volatile long own = 0;
static __thread char large[100000];

static void *work(void *unused)
{
    for (int i = 0; i < 10000; i++)
        own++;
    large[sizeof large - 1] = 7;
    errno = 0;
    if (close(-1) != -1 || errno != EBADF || large[sizeof large - 1] != 7)
        return 0;
    long mine = own;
    __asm__ volatile("lock addq %1, %0" : "+m"(merged) : "r"(mine) : "cc");
    return unused;
}

int main(void)
{
    pthread_t threads[4];
    large[0] = 7;
    for (int n = 0; n < 4; n++)
        pthread_create(&threads[n], 0, work, 0);
    for (int n = 0; n < 4; n++)
        pthread_join(threads[n], 0);
    printf("%ld %d\n", LOAD(merged), large[0]);
    return 0;
}
