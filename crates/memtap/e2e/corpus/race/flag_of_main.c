// The main thread sets a plain flag that a thread polls.
// command: race
// expect: race is_over
#include <pthread.h>
#include <unistd.h>
#include "../hide.h"

static int is_over;

static void *work(void *argument)
{
    for (int i = 0; i < 1000 && !*HIDE(&is_over); i++) // here
        usleep(10);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    usleep(100);
    *HIDE(&is_over) = 1; // here
    pthread_join(thread, NULL);
    return 0;
}
