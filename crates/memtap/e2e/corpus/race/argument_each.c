// Every thread is handed the address of an argument of its own.
// command: race
// expect: nothing
#include <pthread.h>
#include "../hide.h"

static long seen[4];

static void *work(void *argument)
{
    int number = HIDE(*(int *)argument);
    seen[number & 3] += 1;
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    int numbers[4];
    for (int i = 0; i < 4; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, work, HIDE(&numbers[i]));
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return seen[0] == 77;
}
