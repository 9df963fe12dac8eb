// Threads that wait in system calls while recording begins and ends: none of their calls is ended by that.
// build: -pthread
// stdout: right
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int line[2];
static pthread_barrier_t all;
static volatile long wrong, calls;

static void check(int right, const char *what) {
    if (!right) {
        wrong = 1;
        printf("%s: %s\n", what, strerror(errno));
    }
}

static void *sleeps(void *unused) {
    struct timespec moment = {0, 300000000};
    pthread_barrier_wait(&all);
    check(nanosleep(&moment, NULL) == 0, "nanosleep");
    return unused;
}

static void *polls(void *unused) {
    pthread_barrier_wait(&all);
    check(poll(NULL, 0, 300) == 0, "poll");
    return unused;
}

static void *reads(void *unused) {
    char byte = 0;
    pthread_barrier_wait(&all);
    check(read(line[0], &byte, 1) == 1 && byte == 7, "read");
    return unused;
}

__attribute__((noinline)) void begin(void) { calls++; }
__attribute__((noinline)) void finish(void) { calls++; }

int main(void) {
    void *(*bodies[])(void *) = {sleeps, polls, reads};
    pthread_t threads[3];
    pthread_barrier_init(&all, NULL, 4);
    if (pipe(line) != 0) {
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, bodies[i], NULL);
    }
    pthread_barrier_wait(&all);
    // Until they wait.
    usleep(50000);
    for (int i = 0; i < 20; i++) {
        begin();
        finish();
    }
    check(write(line[1], "\7", 1) == 1, "write");
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    puts(wrong ? "wrong" : "right");
    return wrong;
}
