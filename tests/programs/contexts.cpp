// Every way into a function and out of it: crates/memtap/e2e/tests/contexts.rs says which stacks there must be. `leaf` makes one
// modify a call, so that modifies of stacks that end in it count its calls.
// build: -O1 -fno-optimize-sibling-calls -fno-inline
// status: 0
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include "access.h"

#define FUNCTION extern "C" __attribute__((noinline, noclone))

static int counter;

FUNCTION void leaf(void) { MODIFY("addl $1,", counter); }

FUNCTION void recurse(int turns)
{
    leaf();
    if (turns > 1) recurse(turns - 1);
    leaf();
}

// Two calls of itself: contexts are folded, accesses are not lost.
FUNCTION void tree(int depth)
{
    if (depth == 0) return leaf();
    tree(depth - 1);
    tree(depth - 1);
}

// Jumps into leaf, which returns to the caller of tail.
FUNCTION __attribute__((naked)) void tail(void) { __asm__("jmp leaf"); }
FUNCTION void calls_tail(void) { tail(); leaf(); }

static jmp_buf landing;
FUNCTION void jumps(int depth)
{
    if (depth == 0) longjmp(landing, 1);
    jumps(depth - 1);
    leaf();
}
FUNCTION void lands(void)
{
    leaf();
    if (setjmp(landing) == 0) jumps(3);
    leaf();
}

FUNCTION void throws(int depth)
{
    if (depth == 0) throw 1;
    throws(depth - 1);
    leaf();
}
FUNCTION void catches(void)
{
    try {
        throws(3);
    } catch (int) {
        leaf();
    }
    leaf();
}

FUNCTION void handler(int) { leaf(); }
FUNCTION void raises(bool own_stack)
{
    static char memory[1 << 16];
    stack_t stack = {};
    stack.ss_sp = memory;
    stack.ss_size = sizeof memory;
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = own_stack ? SA_ONSTACK : 0;
    if (own_stack) sigaltstack(&stack, nullptr);
    sigaction(SIGUSR1, &action, nullptr);
    raise(SIGUSR1);
    leaf();
}

static ucontext_t outside, inside;
static char stack_of_coroutine[1 << 16];
FUNCTION void step(void) { leaf(); }
FUNCTION void coroutine(void)
{
    for (int turn = 0; turn < 3; turn++) {
        step();
        swapcontext(&inside, &outside);
    }
}
FUNCTION void resumes(void)
{
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack_of_coroutine;
    inside.uc_stack.ss_size = sizeof stack_of_coroutine;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    for (int turn = 0; turn < 3; turn++) {
        swapcontext(&outside, &inside);
        leaf();
    }
}

// Returns to the caller without a recorded return: the allocator's own code is not recorded.
FUNCTION void *wrapper(size_t bytes)
{
    void *block = malloc(bytes);
    leaf();
    return block;
}
FUNCTION void allocates(void)
{
    void *one = wrapper(100);
    leaf();
    void *two = wrapper(200);
    free(one);
    free(two);
    leaf();
}

FUNCTION void works(void) { leaf(); }
FUNCTION void *thread(void *) { works(); return nullptr; }
FUNCTION void starts(void)
{
    pthread_t other;
    pthread_create(&other, nullptr, thread, nullptr);
    pthread_join(other, nullptr);
    leaf();
}

FUNCTION void in_child(void) { leaf(); }
FUNCTION void forks(void)
{
    pid_t child = fork();
    if (child == 0) {
        in_child();
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    leaf();
}

int main(void)
{
    recurse(3);
    tree(10);
    calls_tail();
    lands();
    catches();
    raises(false);
    raises(true);
    resumes();
    allocates();
    starts();
    forks();
    return 0;
}
