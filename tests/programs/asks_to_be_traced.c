// Asks to be traced, as programs do that do not want to be debugged, and goes on: whatever sends it a signal now stops it.
// It accesses more than a buffer holds, makes system calls that change its mask and its handlers, and has a child with memory of its own.
// stdout: traced 0, sum 720000
// stdout: 7 is its child's
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int cells[16];

static void nothing(int signal) { (void)signal; }

int main(void) {
    long traced = ptrace(PTRACE_TRACEME, 0, 0, 0);
    long sum = 0;
    for (int i = 0; i < 96000; i++) {
        cells[i & 15] = i & 15;
        sum += cells[i & 15];
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD); // Else its child's end would stop it, and nobody looks.
    sigprocmask(SIG_BLOCK, &set, 0);
    signal(SIGUSR2, nothing);
    printf("traced %ld, sum %ld\n", traced, sum);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        cells[1] = 7;
        _exit(cells[1]);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (cells[1] == 1)
        printf("%d is its child's\n", WEXITSTATUS(status));
    return 0;
}
