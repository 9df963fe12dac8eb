// A thread waits by poll and read for an event descriptor that another one writes.
// command: race
// expect: nothing
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "../hide.h"

static int event;
static long result;

static void *work(void *argument)
{
    uint64_t one = 1;
    *HIDE(&result) = 42;
    return write(event, &one, 8) == 8 ? NULL : argument;
}

int main(void)
{
    pthread_t thread;
    uint64_t count;
    event = eventfd(0, 0);
    pthread_create(&thread, NULL, work, NULL);
    struct pollfd one = {event, POLLIN, 0};
    if (poll(&one, 1, -1) != 1 || read(event, &count, 8) != 8)
        return 1;
    long value = HIDE(*HIDE(&result));
    pthread_join(thread, NULL);
    return value == 77;
}
