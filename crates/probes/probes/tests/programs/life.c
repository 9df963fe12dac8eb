// fork, _exit in the child, a signal handler, threads that end, and functions called through them a known number of times.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

volatile long sink;

__attribute__((noipa)) void before_fork(void) { sink = sink + 1; }
__attribute__((noipa)) void after_fork(void) { sink = sink + 2; }
__attribute__((noipa)) void in_handler(int signal) { sink = sink + signal; }

__attribute__((noipa)) void *on_thread(void *argument) {
    sink = sink + 1;
    if (argument) pthread_exit(0);
    return 0;
}

int main(void) {
    signal(SIGUSR1, in_handler);
    for (int i = 0; i < 5; i++) raise(SIGUSR1);
    for (long i = 0; i < 200; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, on_thread, (void *)(i % 2));
        pthread_join(thread, 0);
    }
    before_fork();
    pid_t child = fork();
    after_fork();
    if (child == 0) {
        puts("child");
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, 0, 0);
    puts("parent");
    return 0;
}
