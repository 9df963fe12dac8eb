// A child that shares memory and thread pointer (clone with CLONE_VM alone) is recorded beside its creator, and what both do after it, too:
// a fork, a thread.
// lackey: no
// stdout: counted 7, child 3, forked 4, threads 2
// stat: processes=3
// expect: counter size=4 loads=1 stores=1 modifies=1006
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "access.h"

int counter;
static char stack[65536] __attribute__((aligned(16)));

static int child(void *unused)
{
    (void)unused;
    STORE(counter, 1);
    return 3;
}

static void *thread(void *unused)
{
    MODIFY("incl", counter);
    return unused;
}

static int status_of(int pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : -1;
}

int main(void)
{
    pthread_t threads[2];
    int cloned = status_of(clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, 0));
    int pid = fork();
    if (!pid) {
        REPEAT(1000) MODIFY("incl", counter);
        _exit(4);
    }
    int forked = status_of(pid);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, thread, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    REPEAT(4) MODIFY("incl", counter);
    printf("counted %d, child %d, forked %d, threads %d\n", LOAD(counter), cloned, forked, 2);
    return 0;
}
