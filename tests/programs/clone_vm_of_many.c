// A program with several threads makes a child that shares memory and thread pointer (clone with CLONE_VM alone).
// lackey: no
// stdout: counted 2012, child 3
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static int counter;
static volatile int is_over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int child(void *block)
{
    for (int i = 0; i < 1000; i++)
        __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST);
    memset(block, 1, 100);
    return 3;
}

static void *thread(void *unused)
{
    while (!is_over) {
        pthread_mutex_lock(&lock);
        free(malloc(100));
        pthread_mutex_unlock(&lock);
    }
    for (int i = 0; i < 1000; i++)
        __atomic_fetch_add(&counter, 1, __ATOMIC_SEQ_CST);
    return unused;
}

int main(void)
{
    pthread_t other;
    int status;
    char *stack = malloc(65536), *block = malloc(100);
    pthread_create(&other, 0, thread, 0);
    int pid = clone(child, stack + 65536, CLONE_VM | SIGCHLD, block);
    waitpid(pid, &status, 0);
    is_over = 1;
    pthread_join(other, 0);
    for (int i = 0; i < 12; i++)
        counter += block[i];
    printf("counted %d, child %d\n", counter, WEXITSTATUS(status));
    return 0;
}
