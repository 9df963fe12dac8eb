// The main thread ends first; the process ends with the last thread, and its output is written then.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((noinline)) int work(int x) {
    asm volatile("");
    return x + 1;
}

static void *other(void *argument) {
    int sum = 0;
    usleep(200000);
    for (int i = 0; i < 1000; i++) sum += work(i);
    printf("sum %d", sum);
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    pthread_detach(thread);
    pthread_exit(NULL);
}
