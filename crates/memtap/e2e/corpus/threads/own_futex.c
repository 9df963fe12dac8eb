// A lock of the program's own by an atomic exchange and the kernel's futex.
// command: race
// expect: nothing
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "../hide.h"

static atomic_int word;
static long hits;

static void lock(void)
{
    while (atomic_exchange(&word, 2) != 0)
        syscall(SYS_futex, &word, FUTEX_WAIT, 2, NULL, NULL, 0);
}

static void unlock(void)
{
    if (atomic_exchange(&word, 0) == 2)
        syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void *work(void *argument)
{
    for (int i = 0; i < 50; i++) {
        lock();
        *HIDE(&hits) += 1;
        unlock();
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
    return hits == 77;
}
