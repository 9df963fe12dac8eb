// Threads: totals are exact, each thread has its own ordered stream.
// build: -pthread
// lackey: no
// stat: threads=5
// expect: shared size=8 loads=1 modifies=4000
// expect: own size=4 loads=4004 stores=4000
// stdout: 4000 1000 1000 1000 1000
#include <pthread.h>
#include <stdio.h>
#include "access.h"

long shared;
// Apart, so that an access through the wrong thread's view would show.
struct { int value; char pad[60]; } own[4];

static void *work(void *argument)
{
    long n = (long)argument;
    REPEAT(1000) {
        MODIFY("lock incq", shared);
        STORE(own[n].value, LOAD(own[n].value) + 1);
    }
    return 0;
}

int main(void)
{
    pthread_t threads[4];
    for (long n = 0; n < 4; n++)
        pthread_create(&threads[n], 0, work, (void *)n);
    for (long n = 0; n < 4; n++)
        pthread_join(threads[n], 0);
    printf("%ld %d %d %d %d\n", LOAD(shared), LOAD(own[0].value), LOAD(own[1].value), LOAD(own[2].value), LOAD(own[3].value));
    return 0;
}
