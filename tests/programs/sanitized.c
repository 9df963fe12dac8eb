// Heap blocks, a thread, a signal and a fork; with an argument a use after free, which a sanitizer tells.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t seen;

static void handler(int signal) {
    seen = signal;
}

static void *fill(void *argument) {
    int *block = argument;
    for (int i = 0; i < 1000; i++) block[i] = i;
    return 0;
}

int main(int argc, char **argv) {
    int *block = malloc(1000 * sizeof *block);
    pthread_t thread;
    pthread_create(&thread, 0, fill, block);
    pthread_join(thread, 0);
    char *copy = strdup("a string");
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    pid_t child = fork();
    if (!child) _exit(block[7]);
    int status;
    waitpid(child, &status, 0);
    printf("%d %s %d %d\n", block[999], copy, (int)seen, WEXITSTATUS(status));
    fflush(stdout);
    free(copy);
    if (argc > 1) {
        free(block);
        return block[3];
    }
    free(block);
    return 0;
}
