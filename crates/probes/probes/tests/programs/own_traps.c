// Sets what SIGTRAP does, around calls of a function too short for a jump, whose probe is a trap: the default, handlers of its
// own by sigaction and by signal, nothing, and the default in children that share its memory. Three rounds; with "wait" after each
// byte of standard input, until its end.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void tiny(void);
// The next function begins within five bytes.
asm(".text\n.globl tiny\n.type tiny,@function\ntiny: ret\n.size tiny,1\n"
    ".globl after_tiny\n.type after_tiny,@function\nafter_tiny: ret\n.size after_tiny,1\n");

static volatile int handled;

static void count(int signal) {
    (void)signal;
    handled++;
}

static void count_with_info(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    handled += info->si_code == SI_TKILL ? 10 : 100;
}

static void must(int holds, const char *what) {
    if (!holds) {
        printf("not so: %s\n", what);
        exit(1);
    }
}

static void trap(void) { asm volatile("int3"); }

void one_round(void) {
    struct sigaction old, first = {.sa_handler = SIG_DFL}, second = {.sa_sigaction = count_with_info, .sa_flags = SA_SIGINFO};
    sigaddset(&second.sa_mask, SIGUSR1);
    sigaction(SIGTRAP, &first, NULL);
    tiny();
    must(signal(SIGTRAP, count) == SIG_DFL, "the default was set");
    tiny();
    handled = 0;
    raise(SIGTRAP);
    trap();
    must(handled == 2, "the first handler has two signals");
    sigaction(SIGTRAP, NULL, &old);
    must(old.sa_handler == count && old.sa_flags & SA_RESTART, "the first handler is told");
    sigaction(SIGTRAP, &second, &old);
    must(old.sa_handler == count, "the first handler was told");
    tiny();
    handled = 0;
    raise(SIGTRAP);
    trap();
    must(handled == 110, "the second handler has two signals");

    pid_t child = vfork();
    if (child == 0) {
        sigaction(SIGTRAP, &first, NULL);
        tiny();
        signal(SIGTRAP, SIG_IGN);
        tiny();
        _exit(7);
    }
    int status;
    waitpid(child, &status, 0);
    must(WIFEXITED(status) && WEXITSTATUS(status) == 7, "the child ended by itself");
    sigaction(SIGTRAP, NULL, &old);
    must(old.sa_sigaction == count_with_info && old.sa_flags & SA_SIGINFO && sigismember(&old.sa_mask, SIGUSR1),
         "the child has not changed its creator's");

    child = fork();
    if (child == 0) {
        signal(SIGTRAP, SIG_DFL);
        tiny();
        trap();
        _exit(0);
    }
    waitpid(child, &status, 0);
    must(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP, "the default ends a child");
    must(signal(SIGTRAP, SIG_IGN) != SIG_DFL, "a handler was set");
    tiny();
    raise(SIGTRAP);
    must(signal(SIGTRAP, SIG_DFL) == SIG_IGN, "it was ignored");
}

static void rounds(void) {
    for (int i = 0; i < 3; i++)
        one_round();
    printf("done\n");
    fflush(stdout);
}

int main(int count, char **words) {
    (void)words;
    if (count == 1) {
        rounds();
    } else {
        printf("ready\n");
        fflush(stdout);
        char c;
        while (read(0, &c, 1) > 0)
            rounds();
    }
    return 0;
}
