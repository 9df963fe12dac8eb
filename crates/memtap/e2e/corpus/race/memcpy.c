// Two threads copy into the same buffer by memcpy.
// command: race
// expect: race
#include <pthread.h>
#include <string.h>
#include "../hide.h"

static char buffer[200], source[200];

static void *work(void *argument)
{
    memcpy(HIDE((char *)buffer), HIDE((char *)source), HIDE(200)); // here
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return buffer[3] == 77;
}
