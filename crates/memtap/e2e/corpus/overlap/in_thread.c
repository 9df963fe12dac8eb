// A large memcpy and a stpcpy within variables, in a thread.
// command: errors
// expect: overlap
#include <pthread.h>
#include <string.h>
#include "../hide.h"

static char bytes[3 << 20];

static void *work(void *unused)
{
    char text[80];
    memset(text, 'a', 79);
    text[79] = 0;
    memcpy(HIDE((char *)bytes), HIDE((char *)bytes + 4096), HIDE(sizeof bytes - 4096)); // here
    stpcpy(HIDE((char *)text), HIDE((char *)text + 7)); // here
    SHOW(text);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    return 0;
}
