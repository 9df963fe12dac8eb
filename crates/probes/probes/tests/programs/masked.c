// Calls a function too short for a jump, whose probe is a trap, with all signals blocked: 100 times in a round each by
// sigprocmask and pthread_sigmask, and once each in handlers that run with full masks, of a signal that is raised and of one that
// sigsuspend and ppoll let in. Without arguments three rounds; with "wait" rounds, and a signal each whose handler was installed at
// the beginning, until the end of standard input.
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

void tiny(void);
// The next function begins within five bytes.
asm(".text\n.globl tiny\n.type tiny,@function\ntiny: ret\n.size tiny,1\n"
    ".globl after_tiny\n.type after_tiny,@function\nafter_tiny: ret\n.size after_tiny,1\n");

static void handle(int signal) {
    (void)signal;
    tiny();
}

static void must(int holds, const char *what) {
    if (!holds) {
        printf("not so: %s\n", what);
        exit(1);
    }
}

static int tells_trap = 0;

void one_round(void) {
    sigset_t all, none, old, but_one;
    sigfillset(&all);
    sigemptyset(&none);
    sigprocmask(SIG_BLOCK, &all, &old);
    must(!sigismember(&old, SIGTRAP), "SIGTRAP is open at first");
    for (int i = 0; i < 100; i++)
        tiny();
    sigprocmask(SIG_SETMASK, &old, &none);
    must(sigismember(&none, SIGUSR1), "SIGUSR1 was blocked");
    tells_trap = sigismember(&none, SIGTRAP);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (int i = 0; i < 100; i++)
        tiny();
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    must(sigismember(&all, SIGTRAP), "the program's own set is as it was");

    struct sigaction action = {.sa_handler = handle, .sa_mask = all};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sigemptyset(&none);
    sigaddset(&none, SIGUSR1);
    sigprocmask(SIG_BLOCK, &none, NULL);
    raise(SIGUSR1);
    sigfillset(&but_one);
    sigdelset(&but_one, SIGUSR1);
    sigsuspend(&but_one);
    raise(SIGUSR1);
    ppoll(NULL, 0, NULL, &but_one);
    sigprocmask(SIG_UNBLOCK, &none, NULL);
}

int main(int count, char **words) {
    (void)words;
    if (count > 1) {
        // Handlers that were installed before anybody attached.
        struct sigaction action = {.sa_handler = handle};
        sigfillset(&action.sa_mask);
        sigaction(SIGUSR2, &action, NULL);
        struct pollfd input = {.fd = 0, .events = POLLIN};
        printf("ready\n");
        fflush(stdout);
        while (poll(&input, 1, 0) == 0) {
            one_round();
            raise(SIGUSR2);
        }
    } else {
        for (int i = 0; i < 3; i++)
            one_round();
        must(tells_trap, "SIGTRAP was blocked, as the program sees it");
    }
    printf("done\n");
    return 0;
}
