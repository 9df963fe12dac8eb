// Threads that never wait, until standard input ends: there is no good moment to leave them but one that they are asked for.
// build: -pthread
// lackey: no
// stdout: ready
// stdout: right
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int over;
static long wrong;

static void *works(void *number) {
    unsigned seed = 1 + (unsigned)(long)number;
    while (!over) {
        char *blocks[16];
        for (int i = 0; i < 16; i++) {
            seed = seed * 1664525 + 1013904223;
            size_t size = 1 + (seed >> 20);
            blocks[i] = malloc(size);
            memset(blocks[i], i, size);
            if (i % 5 == 0 && number != NULL) {
                syscall(SYS_getpid);
            }
        }
        double sum = 0;
        for (int i = 0; i < 200; i++) {
            sum += i * 0.5;
        }
        int right = sum == 9950;
        for (int i = 0; i < 16; i++) {
            right &= blocks[i][0] == i;
            free(blocks[i]);
        }
        if (!right) {
            __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
        }
    }
    return NULL;
}

int main(void) {
    enum { COUNT = 4 };
    pthread_t threads[COUNT];
    for (long i = 0; i < COUNT; i++) {
        pthread_create(&threads[i], NULL, works, (void *)i);
    }
    puts("ready");
    fflush(stdout);
    struct pollfd input = {0, POLLIN, 0};
    while (poll(&input, 1, 0) == 0) {
    }
    over = 1;
    for (int i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
    }
    puts(wrong == 0 ? "right" : "wrong");
    return wrong != 0;
}
