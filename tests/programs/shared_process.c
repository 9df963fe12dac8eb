// A process that shares its creator's memory, thread pointer and handlers (clone with CLONE_VM alone), while both run and are
// interrupted: each has its own number, and makes its own system calls.
// lackey: no
// stdout: 3000 own 3000 shared, handled in both, 2 processes, status 5
// stat: processes=2
// expect: shared size=4 loads=1 stores=3000
// expect: own size=4 loads=1 stores=3000
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "access.h"

int own, shared;
static volatile int handled[2];
static pid_t parent;
static char stack[65536] __attribute__((aligned(16)));

static pid_t pid_now(void)
{
    pid_t pid;
    __asm__ volatile("syscall" : "=a"(pid) : "0"(SYS_getpid) : "rcx", "r11", "memory");
    return pid;
}

static void on_signal(int signal)
{
    (void)signal;
    handled[pid_now() != parent] = 1;
}

// Of the C library's functions it uses none: they think that it is its creator.
static void count(int *counter)
{
    for (int i = 1; i <= 3000; i++) {
        long result;
        STORE(*counter, i);
        if (i % 100 == 0)
            __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_tkill), "D"(pid_now()), "S"(SIGUSR1) : "rcx", "r11", "memory");
    }
}

static int run(void *counter)
{
    count(counter);
    return 5;
}

int main(void)
{
    struct sigaction action;
    int status;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, 0);
    parent = getpid();
    pid_t child = clone(run, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | SIGCHLD, &shared);
    count(&own);
    while (waitpid(child, &status, 0) == -1)
        ;
    printf("%d own %d shared, handled %s, %d processes, status %d\n", LOAD(own), LOAD(shared),
           handled[0] && handled[1] ? "in both" : "in one", child == parent ? 1 : 2, WEXITSTATUS(status));
    return 0;
}
