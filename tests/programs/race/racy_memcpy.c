// A block is copied while another thread writes into it.
// build: -pthread
// race: buffer
#include <pthread.h>
#include <string.h>

char buffer[256];
static char copy[256];
static volatile unsigned long bytes = sizeof copy;

static void *save(void *unused)
{
    memcpy(copy, buffer, bytes); // RACE
    return unused;
}

static void *write_one(void *unused)
{
    buffer[100] = 1; // RACE
    return unused;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, 0, save, 0);
    pthread_create(&b, 0, write_one, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
