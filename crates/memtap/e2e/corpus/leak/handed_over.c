// A thread hands a block over by its result, which is released.
// command: errors
// record: --data
// expect: nothing
#include <pthread.h>
#include <stdlib.h>
#include "../hide.h"

static void *work(void *argument)
{
    int *result = HIDE(malloc(400));
    result[3] = 1;
    return result;
}

int main(void)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, &result);
    free(result);
    return 0;
}
