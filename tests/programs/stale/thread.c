// Another thread frees what this one goes on reading.
// build: -pthread
// stale: <freed:@make> by main loads=4
#include <pthread.h>
#include <stdlib.h>
#include "hidden.h"
__attribute__((noinline, noclone)) static long *make(void) { return malloc(2048); }
static void *release(void *block) { free(block); return 0; }
int main(void)
{
    long *block = make();
    STORE(block[100], 3);
    pthread_t thread;
    pthread_create(&thread, 0, release, block);
    pthread_join(thread, 0);
    block = HIDDEN(block);
    long sum = 0;
    REPEAT(4) sum += LOAD(block[100]);
    return sum != 12;
}
