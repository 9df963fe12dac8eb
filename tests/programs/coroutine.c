// Stacks that lie on the heap and in data: makecontext, swapcontext, and a stack pointer set by hand. Accesses to such
// a stack are accesses to the memory it lies in.
// lackey: no
// expect: counter size=4 loads=61 stores=60
// expect: words size=8 loads=4 stores=4
// stderr: 60 1 2 3 9
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include "access.h"

int counter;
static ucontext_t main_context, other_context;
static char *stack_block;
static long words[512] __attribute__((aligned(16)));
static int order[3], next;

static void body(void)
{
    for (int turn = 0; turn < 3; turn++) {
        REPEAT(20) STORE(counter, LOAD(counter) + 1);
        order[next++] = turn + 1;
        swapcontext(&other_context, &main_context);
    }
}

int main(void)
{
    stack_block = malloc(65536);
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = stack_block;
    other_context.uc_stack.ss_size = 65536;
    other_context.uc_link = &main_context;
    makecontext(&other_context, body, 0);
    for (int turn = 0; turn < 3; turn++)
        swapcontext(&main_context, &other_context);

    // push, push, call, pop in the callee of its own return address, push, ret, pop, pop: four of each.
    long result;
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "leaq 4096(%1), %%rsp\n\t"
                     "pushq $4\n\t"
                     "pushq $5\n\t"
                     "call 1f\n\t"
                     "jmp 2f\n"
                     "1:\tpopq %%rax\n\t"
                     "pushq %%rax\n\t"
                     "ret\n"
                     "2:\tpopq %%rax\n\t"
                     "popq %%rcx\n\t"
                     "movq %%rbx, %%rsp\n\t"
                     "addq %%rcx, %%rax"
                     : "=a"(result) : "r"(words) : "rbx", "rcx", "memory", "cc");
    fprintf(stderr, "%d %d %d %d %ld\n", LOAD(counter), order[0], order[1], order[2], result);
    free(stack_block);
    return 0;
}
