// Two functions take turns, each on a stack that lies on the heap.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <ucontext.h>
#include "../hide.h"

static ucontext_t outer, inner;
static long sum;

static void work(void)
{
    for (int i = 0; i < 5; i++) {
        volatile long numbers[10];
        for (int j = 0; j < 10; j++)
            numbers[j] = i * j;
        sum += numbers[9];
        swapcontext(&inner, &outer);
    }
}

int main(void)
{
    char *stack = malloc(1 << 16);
    getcontext(&inner);
    inner.uc_stack.ss_sp = stack;
    inner.uc_stack.ss_size = 1 << 16;
    inner.uc_link = &outer;
    makecontext(&inner, work, 0);
    for (int i = 0; i < 5; i++)
        swapcontext(&outer, &inner);
    free(stack);
    return sum == 77;
}
