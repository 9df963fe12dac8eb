// For each line of its standard input it forks a child that calls work 1000 times and stays, or, where the line is "stop", stops itself,
// and one that calls it 500 times and ends by _exit; then it says "done". Where the line is "end", the child that stays has to call _exit
// instead. Children that stay are killed at the end.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noipa))

static volatile long sum;

KEPT void work(int n) { sum += n; }

static void leave(int signal) { _exit(signal == SIGTERM ? 3 : 4); }

static pid_t fork_one(int calls, int stays, int stops) {
    int done[2];
    char c;
    if (pipe(done)) abort();
    pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) {
        signal(SIGTERM, leave);
        for (int i = 0; i < calls; i++) work(i);
        if (write(done[1], "", 1) != 1) abort();
        if (stops) raise(SIGSTOP);
        while (stays) pause();
        _exit(7);
    }
    if (read(done[0], &c, 1) != 1) abort();
    close(done[0]);
    close(done[1]);
    return child;
}

int main(void) {
    char line[100];
    int status;
    printf("ready\n");
    fflush(stdout);
    pid_t stay = 0;
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "end", 3)) {
            kill(stay, SIGTERM);
            if (waitpid(stay, &status, 0) != stay || !WIFEXITED(status) || WEXITSTATUS(status) != 3) abort();
            stay = 0;
            printf("done\n");
            fflush(stdout);
            continue;
        }
        int stops = !strncmp(line, "stop", 4);
        if (stay) kill(stay, SIGKILL), waitpid(stay, 0, 0);
        stay = fork_one(1000, 1, stops);
        if (stops && (waitpid(stay, &status, WUNTRACED) != stay || !WIFSTOPPED(status))) abort();
        pid_t end = fork_one(500, 0, 0);
        if (waitpid(end, &status, 0) != end || !WIFEXITED(status) || WEXITSTATUS(status) != 7) abort();
        printf("done\n");
        fflush(stdout);
    }
    if (stay) kill(stay, SIGKILL);
    printf("fine\n");
    return 0;
}
