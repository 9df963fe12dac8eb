// A static executable with threads, a forked child, and a child that executes the same file again: its thread control
// blocks, its link to itself and its environment are as natively.
// build: -static -pthread
// translate: only
// stdout: threads 6 7 8, child 5, again 9, exe static, sum 4950
// lackey: no
// stat: processes=4
// expect: numbers size=4 loads=100 stores=100 modifies=0
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__thread long local = 5;
int numbers[100];

static void *run(void *number) {
    local += (long)number + 1;
    return (void *)local;
}

static int wait_for(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        return getenv("LD_PRELOAD") || getenv("MEMTAP_STATIC") ? 1 : 9;
    }
    pthread_t threads[3];
    void *results[3];
    for (long i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, run, (void *)i);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &results[i]);
    }
    pid_t child = fork();
    if (child == 0) {
        _exit((int)local);
    }
    int first = wait_for(child);
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", argv[0], "again", NULL);
        _exit(1);
    }
    int second = wait_for(child);
    char link[4096];
    ssize_t len = readlink("/proc/self/exe", link, sizeof link - 1);
    link[len > 0 ? len : 0] = 0;
    char *name = strrchr(link, '/');
    volatile int *place = numbers;
    for (int i = 0; i < 100; i++) {
        place[i] = i;
    }
    int sum = 0;
    for (int i = 0; i < 100; i++) {
        sum += place[i];
    }
    printf("threads %ld %ld %ld, child %d, again %d, exe %s, sum %d\n", (long)results[0], (long)results[1],
           (long)results[2], first, second, name ? name + 1 : "", sum);
    return 0;
}
