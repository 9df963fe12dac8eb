// Forks children, one after the other, from two threads, until its standard input ends; each child calls functions and says by
// its status that they returned what they should.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noipa))

static volatile int stop;

KEPT int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

KEPT void fork_one(void) {
    pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) _exit(fib(10));
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != fib(10)) {
        fprintf(stderr, "a child ended with status %#x\n", status);
        abort();
    }
}

static void *forks(void *unused) {
    while (!stop) fork_one();
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, forks, NULL)) abort();
    printf("ready\n");
    fflush(stdout);
    char c;
    while (read(0, &c, 1) > 0) {
    }
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("fine\n");
    return 0;
}
