// A thread releases a block that another one uses after it was told so.
// command: errors
// expect: use_after_free
#include <pthread.h>
#include <stdlib.h>
#include "../hide.h"

static void *release(void *block)
{
    free(block);
    return NULL;
}

int main(void)
{
    long *block = HIDE(malloc(60));
    block[2] = 3;
    SHOW(block);
    pthread_t thread;
    pthread_create(&thread, NULL, release, block);
    pthread_join(thread, NULL);
    return HIDE(HIDE(block)[2]) == 77; // here
}
