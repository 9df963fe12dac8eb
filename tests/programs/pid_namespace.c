// Processes in a name space of process ids of their own: the first is 1 there, forks another one, and becomes another program.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int cells[1000];

static void work(void) {
    for (int i = 0; i < 1000; i++) cells[i] += i;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        work();
        printf("%s %d\n", argv[1], getpid());
        return 0;
    }
    setvbuf(stdout, 0, _IONBF, 0);
    if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID)) {
        puts("no name spaces here");
        return 0;
    }
    int status;
    if (!fork()) {
        printf("first %d\n", getpid());
        if (!fork()) {
            work();
            printf("second %d\n", getpid());
            _exit(3);
        }
        wait(&status);
        printf("status %d\n", WEXITSTATUS(status));
        // A child of vfork, too.
        if (!vfork()) {
            execl("/proc/self/exe", argv[0], "third", (char *)0);
            _exit(127);
        }
        wait(&status);
        execl("/proc/self/exe", argv[0], "fourth", (char *)0);
        _exit(127);
    }
    wait(&status);
    printf("end %d\n", WEXITSTATUS(status));
    return 0;
}
