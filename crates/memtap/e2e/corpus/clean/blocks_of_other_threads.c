// Blocks are allocated by one thread, used by others and released by the last one.
// command: errors
// expect: nothing
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

static char *blocks[60];

static void *fill(void *argument)
{
    for (int i = 0; i < 60; i++)
        memset(HIDE(blocks[i]), 1, 10 + i);
    return NULL;
}

static void *release(void *argument)
{
    for (int i = 0; i < 60; i++) {
        free(blocks[i]);
        blocks[i] = malloc(20 + i);
        blocks[i][19 + i] = 1;
    }
    return NULL;
}

int main(void)
{
    void *(*const parts[])(void *) = {fill, release, release};
    for (int i = 0; i < 60; i++)
        blocks[i] = malloc(10 + i);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, parts[i], NULL);
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < 60; i++)
        free(blocks[i]);
    return 0;
}
