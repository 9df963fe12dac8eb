// 300 short threads, four at a time, and memory that all of them use.
// build: -pthread
// lackey: no
// stat: threads=301
// expect: counter size=4 loads=1 modifies=3000
// stdout: 3000
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "access.h"

int counter;

static void *work(void *unused)
{
    char *block = malloc(1000);
    REPEAT(10) MODIFY("lock incl", counter);
    free(block);
    return unused;
}

int main(void)
{
    pthread_t threads[4];
    for (int round = 0; round < 75; round++) {
        for (int n = 0; n < 4; n++)
            if (pthread_create(&threads[n], 0, work, 0))
                return 1;
        for (int n = 0; n < 4; n++)
            pthread_join(threads[n], 0);
    }
    printf("%d\n", LOAD(counter));
    return 0;
}
