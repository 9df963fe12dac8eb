// Every thread is handed the address of the loop's counter, which goes on.
// command: race
// expect: race
#include <pthread.h>
#include "../hide.h"

static long seen[4];

static void *work(void *argument)
{
    int number = HIDE(*(int *)argument); // here
    __atomic_add_fetch(&seen[number & 3], 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    int number;
    int *counter = HIDE(&number);
    for (*counter = 0; *counter < 4; *counter += 1) // here
        pthread_create(&threads[*counter], NULL, work, counter);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return seen[0] == 77;
}
