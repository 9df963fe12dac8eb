// More threads than can be attached to, until standard input ends.
// build: -pthread
// alone: no
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *waits(void *unused) {
    pause();
    return unused;
}

int main(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int i = 0; i < 1500; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, waits, NULL) != 0) {
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) != 0;
}
