// Traces its child, which stops itself once, is stopped by one signal that it handles, and ends: the tracer sees these stops and no
// others.
// stdout: stop 19
// stdout: stop 10
// stdout: handled 1, status 91
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static volatile int cells[16];

static void handle(int signal) {
    (void)signal;
    handled++;
}

static int child(void) {
    signal(SIGUSR1, handle);
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    int x = 5;
    for (int i = 0; i < 96000; i++)
        cells[i & 15] = i;
    for (int i = 0; i < 100; i++)
        x += i;
    raise(SIGUSR1);
    return handled == 1 ? x & 127 : 1;
}

int main(void) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(child());
    int status, seen = 0;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        printf("stop %d\n", signal);
        seen += signal == SIGUSR1;
        ptrace(PTRACE_CONT, pid, 0, signal == SIGSTOP ? 0 : signal);
    }
    printf("handled %d, status %d\n", seen, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 0;
}
