// Not a use after free: memory that is used again, by malloc, by mmap, by stacks of threads.
// build: -pthread
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "hidden.h"
static void *work(void *unused)
{
    char space[20000];
    memset(HIDDEN(space), 1, sizeof space);
    char *blocks[50];
    for (int i = 0; i < 50; i++)
        blocks[i] = memset(malloc(i * 37), 1, i * 37);
    for (int i = 0; i < 50; i++)
        free(blocks[i]);
    return unused;
}
int main(void)
{
    for (int i = 0; i < 20; i++) {
        char *large = malloc(300000 + i * 5000);
        memset(HIDDEN(large), 1, 300000);
        large = realloc(large, 900000);
        memset(HIDDEN(large), 1, 900000);
        free(large);
        char *pages = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(HIDDEN(pages), 1, 1 << 20);
        munmap(pages, 1 << 20);
        pthread_t threads[3];
        for (int t = 0; t < 3; t++)
            pthread_create(&threads[t], 0, work, 0);
        for (int t = 0; t < 3; t++)
            pthread_join(threads[t], 0);
    }
    return 0;
}
