// main ends by pthread_exit; the last of the other threads ends the process with exit().
// build: -pthread
// lackey: no
// stat: threads=3
// expect: counter size=4 loads=1 modifies=200
// stdout: 200
// status: 6
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "access.h"

int counter;
static pthread_t main_thread, first;

static void *work(void *argument)
{
    REPEAT(100) MODIFY("lock incl", counter);
    if (argument) {
        pthread_join(main_thread, 0);
        pthread_join(first, 0);
        printf("%d\n", LOAD(counter));
        exit(6);
    }
    return 0;
}

int main(void)
{
    pthread_t last;
    main_thread = pthread_self();
    pthread_create(&first, 0, work, 0);
    pthread_create(&last, 0, work, (void *)1);
    pthread_exit(0);
}
