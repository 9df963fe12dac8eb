// A local variable of a thread that did not begin the program. Prints where it is, and what is in it at last.
// lackey: no
// build: -pthread -fno-inline
#include <pthread.h>
#include <stdio.h>

static void add(volatile int *to, int what)
{
    *to += what;
}

static void *work(void *unused)
{
    volatile int local = 1;
    printf("%p\n", (void *)&local);
    for (int i = 1; i <= 3; i++)
        add(&local, i);
    printf("%d\n", local);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    return 0;
}
