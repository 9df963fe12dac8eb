// A handler of a signal on a stack of its own, which lies on the heap.
// command: errors
// expect: nothing
#include <signal.h>
#include <stdlib.h>
#include "../hide.h"

static volatile sig_atomic_t count;

static void handle(int signal)
{
    volatile char bytes[200];
    for (int i = 0; i < 200; i++)
        bytes[i] = i;
    count += bytes[3];
}

int main(void)
{
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 5; i++)
        raise(SIGUSR1);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, NULL);
    free(stack.ss_sp);
    return count == 77;
}
