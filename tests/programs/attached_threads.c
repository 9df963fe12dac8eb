// Threads that wait in all the ways in which programs wait, until standard input ends: none may see that it is attached to.
// build: -pthread
// stdout: ready
// stdout: right
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static volatile int over;
static long wrong;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;
static long turn, guarded[2], blocks;
static sem_t handed;
static int line[2];

static void check(int right, const char *what) {
    if (!right) {
        __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
        printf("%s: %s\n", what, strerror(errno));
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *sleeps(void *unused) {
    while (!over) {
        double begin = now();
        struct timespec moment = {0, 3000000};
        check(nanosleep(&moment, NULL) == 0, "nanosleep");
        check(now() - begin >= 0.003, "nanosleep was short");
        check(clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL) == 0, "clock_nanosleep");
    }
    return unused;
}

static void *polls(void *unused) {
    int none = epoll_create1(0);
    struct epoll_event event;
    while (!over) {
        double begin = now();
        check(poll(NULL, 0, 5) == 0, "poll");
        check(now() - begin >= 0.005, "poll was short");
        // The kernel itself ends this one where a thread is stopped.
        int count = epoll_wait(none, &event, 1, 5);
        check(count == 0 || (count < 0 && errno == EINTR), "epoll_wait");
    }
    close(none);
    return unused;
}

static void *sleeps_long(void *unused) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    char byte = 0;
    check(read(line[0], &byte, 1) == 1 && byte == 7, "read of a pipe");
    return unused;
}

static void *takes_turns(void *number) {
    long own = (long)number;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (turn % 2 != own && !over) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += 100;
            int result = pthread_cond_timedwait(&turned, &lock, &until);
            check(result == 0, "pthread_cond_timedwait");
        }
        turn += 1;
        guarded[0] += 1;
        guarded[1] += 1;
        check(guarded[0] == guarded[1], "guarded");
        pthread_cond_broadcast(&turned);
        long own_turn = turn;
        pthread_mutex_unlock(&lock);
        if (over) {
            return NULL;
        }
        if (own_turn % 16 == 0) {
            usleep(500);
        }
    }
}

static void *allocates(void *unused) {
    while (!over) {
        char *list[50];
        for (long i = 0; i < 50; i++) {
            list[i] = malloc(10 + i * 10);
            memset(list[i], (int)i, 10 + i * 10);
        }
        for (long i = 0; i < 50; i++) {
            check(list[i][9 + i * 10] == i, "a block");
            free(list[i]);
        }
        blocks += 50;
        usleep(1000);
    }
    return unused;
}

static void *child(void *parent) { return parent; }

static void *makes_threads(void *unused) {
    while (!over) {
        pthread_t made;
        void *result = NULL;
        check(pthread_create(&made, NULL, child, (void *)8) == 0, "pthread_create");
        check(pthread_join(made, &result) == 0 && result == (void *)8, "pthread_join");
        usleep(500);
    }
    return unused;
}

static void *posts(void *unused) {
    while (!over) {
        sem_post(&handed);
        pthread_barrier_wait(&both);
        usleep(100);
    }
    over = 2;
    sem_post(&handed);
    return unused;
}

static void *waits(void *unused) {
    for (;;) {
        check(sem_wait(&handed) == 0, "sem_wait");
        if (over == 2) {
            return unused;
        }
        pthread_barrier_wait(&both);
    }
}

static void *spins(void *unused) {
    while (!over) {
        double sum = 0;
        for (int i = 0; i < 1000; i++) {
            sum += i;
        }
        check(sum == 499500, "a sum");
    }
    return unused;
}

int main(void) {
    void *(*bodies[])(void *) = {sleeps, polls, sleeps_long, takes_turns, takes_turns, allocates,
                                 makes_threads, posts, waits, spins};
    enum { COUNT = sizeof bodies / sizeof *bodies };
    pthread_t threads[COUNT];
    pthread_barrier_init(&both, NULL, 2);
    sem_init(&handed, 0, 0);
    if (pipe(line) != 0) {
        return 1;
    }
    for (long i = 0; i < COUNT; i++) {
        pthread_create(&threads[i], NULL, bodies[i], (void *)(i % 2));
    }
    puts("ready");
    fflush(stdout);
    char byte;
    check(read(0, &byte, 1) == 0, "read");
    over = 1;
    check(write(line[1], "\7", 1) == 1, "write");
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&lock);
    for (long i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
    }
    puts(wrong == 0 ? "right" : "wrong");
    return wrong != 0;
}
