// A child ignores a signal that memtap lives on and sleeps; its parent sends it that one and then one that it handles: the first ends no
// sleep for good, and the second comes. Ten times each.
// lackey: no
// stdout: SIGTRAP 10, SIGSEGV 10, SIGSYS 10
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t told;

static void tell(int signal) {
    (void)signal;
    told = 1;
}

static void wait_for_it(void) {
    while (!told)
        nanosleep(&(struct timespec){0, 20000000}, 0);
}

static int round_of(int sent) {
    int status = 0;
    told = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(sent, SIG_IGN);
        kill(getppid(), SIGUSR1);
        wait_for_it();
        _exit(1);
    }
    wait_for_it();
    kill(child, sent);
    kill(child, SIGUSR1);
    while (waitpid(child, &status, 0) != child) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

int main(void) {
    int ended[3] = {0}, sent[] = {SIGTRAP, SIGSEGV, SIGSYS};
    signal(SIGUSR1, tell);
    for (int i = 0; i < 30; i++)
        ended[i % 3] += round_of(sent[i % 3]);
    printf("SIGTRAP %d, SIGSEGV %d, SIGSYS %d\n", ended[0], ended[1], ended[2]);
    return 0;
}
