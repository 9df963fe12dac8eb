// A thread loses a block.
// command: errors
// record: --data
// expect: leak definite
#include <pthread.h>
#include <stdlib.h>
#include "../hide.h"

static void *work(void *argument)
{
    int *scratch = HIDE(malloc(400)); // here
    scratch[3] = 1;
    SHOW(scratch);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    return 0;
}
