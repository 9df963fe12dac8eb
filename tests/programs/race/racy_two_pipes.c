// What one thread writes to a pipe another one never reads: it waits at a second pipe, and at an eventfd, that others have written.
// build: -pthread
// race: slot
// race: other
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int first[2], second[2], full, empty;
int slot, other;

static void *giver(void *unused)
{
    slot = 1; // RACE
    if (write(first[1], "a", 1) != 1)
        return 0;
    other = 2; // RACE
    eventfd_write(full, 1);
    return unused;
}

static void *taker(void *unused)
{
    char byte;
    eventfd_t count;
    if (read(second[0], &byte, 1) != 1)
        return 0;
    eventfd_read(empty, &count);
    slot++; // RACE
    other++; // RACE
    return unused;
}

int main(void)
{
    pthread_t a, b;
    if (pipe(first) || pipe(second))
        return 1;
    full = eventfd(0, 0);
    empty = eventfd(0, 0);
    pthread_create(&a, 0, giver, 0);
    pthread_create(&b, 0, taker, 0);
    usleep(10000);
    if (write(second[1], "a", 1) != 1)
        return 1;
    eventfd_write(empty, 1);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
