// Threads that print and read the clock and the environment, with what the C library locks itself.
// command: race
// expect: nothing
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *work(void *argument)
{
    struct tm parts;
    time_t now = 1000000000;
    for (int i = 0; i < 10; i++) {
        localtime_r(&now, &parts);
        printf("%d %s\n", parts.tm_year, getenv("HOME") ? "at home" : "nowhere");
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
