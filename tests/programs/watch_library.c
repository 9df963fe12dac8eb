// Variables of a shared library, and thread-local ones of both the library and the program, each thread's own; and blocks
// that the library allocates.
// build: -pthread -fno-inline
// links: watch_shelf
// stdout: 3 11 15
#include <pthread.h>
#include <stdio.h>

extern __thread int shelf_reader;
int *shelf_make(void);
int shelf_put(int books);

struct visit {
    int first, last;
};
static __thread volatile struct visit visit;

static void *work(void *unused)
{
    (void)unused;
    visit.last = 10;
    shelf_reader = 5;
    shelf_put(2);
    return (void *)(long)(visit.last + shelf_reader);
}

int main(void)
{
    pthread_t thread;
    void *result;
    visit.last = 7;
    shelf_put(1);
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, &result);
    volatile int *made = shelf_make();
    made[1] = 4;
    printf("%d %d %ld\n", shelf_put(0), visit.last + shelf_reader + made[1], (long)result);
    return 0;
}
