// A thread tells by a pipe that its result is there.
// command: race
// expect: nothing
#include <pthread.h>
#include <unistd.h>
#include "../hide.h"

static int pipes[2];
static long result;

static void *work(void *argument)
{
    *HIDE(&result) = 42;
    return write(pipes[1], "x", 1) == 1 ? NULL : argument;
}

int main(void)
{
    pthread_t thread;
    char byte;
    if (pipe(pipes) != 0)
        return 1;
    pthread_create(&thread, NULL, work, NULL);
    if (read(pipes[0], &byte, 1) != 1)
        return 1;
    long value = HIDE(*HIDE(&result));
    pthread_join(thread, NULL);
    return value == 77;
}
