// Asks to be traced while it has a second thread, which does not end before the process does.
// build: -pthread
// stdout: traced 0
#include <pthread.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <unistd.h>

static void *wait(void *nothing) {
    pause();
    return nothing;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, wait, 0);
    long traced = ptrace(PTRACE_TRACEME, 0, 0, 0);
    printf("traced %ld\n", traced);
    return 0;
}
