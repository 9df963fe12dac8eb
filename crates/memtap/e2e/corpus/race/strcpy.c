// One thread copies a string into a buffer while another one reads there.
// command: race
// expect: race name
#include <pthread.h>
#include <string.h>
#include "../hide.h"

static char name[64];

static void *work(void *argument)
{
    strcpy(HIDE((char *)name), HIDE((char *)"a name of some length")); // here
    return NULL;
}

static void *look(void *argument)
{
    return (void *)(long)HIDE(*HIDE(&name[3])); // here
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, work, NULL);
    pthread_create(&threads[1], NULL, look, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return name[3] == 77;
}
