// Threads that need a table let pthread_once make it.
// command: race
// expect: nothing
#include <pthread.h>
#include "../hide.h"

static long table[20];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make(void)
{
    for (int i = 0; i < 20; i++)
        *HIDE(&table[i]) = i * i;
}

static void *work(void *argument)
{
    pthread_once(&once, make);
    long value = HIDE(*HIDE(&table[7]));
    return value == 77 ? argument : NULL;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
