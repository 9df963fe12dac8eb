// Two threads read from pipes of their own into the same buffer.
// command: race
// expect: race buffer
#include <pthread.h>
#include <unistd.h>
#include "../hide.h"

static char buffer[64];

static void *work(void *argument)
{
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], "sixteen letters.", 16) != 16)
        return NULL;
    if (read(ends[0], HIDE((char *)buffer), 16) != 16) // here
        return NULL;
    return argument;
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
