// Two eventfds hand a slot to and fro; one of them by a duplicate.
// build: -pthread
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int full, empty, full_again;
int slot, sum;

static void *producer(void *unused)
{
    eventfd_t count;
    for (int i = 0; i < 10; i++) {
        eventfd_read(empty, &count);
        slot = i;
        eventfd_write(full_again, 1);
    }
    return unused;
}

static void *consumer(void *unused)
{
    eventfd_t count;
    for (int i = 0; i < 10; i++) {
        eventfd_read(full, &count);
        sum += slot;
        eventfd_write(empty, 1);
    }
    return unused;
}

int main(void)
{
    pthread_t a, b;
    full = eventfd(0, 0);
    full_again = dup(full);
    empty = eventfd(1, EFD_SEMAPHORE);
    pthread_create(&a, 0, producer, 0);
    pthread_create(&b, 0, consumer, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return sum != 45;
}
