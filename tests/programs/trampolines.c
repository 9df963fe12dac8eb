// Functions inside of functions: their callers get code that is written on the stack, at the same place for each of them.
// expect: counter size=4 loads=1 modifies=100
// expect: other size=4 loads=1 modifies=200
// stdout: 100 200
#include <stdio.h>
#include "access.h"

int counter, other;

static void __attribute__((noinline)) call(void (*function)(void))
{
    function();
}

static void __attribute__((noinline)) first(volatile int amount)
{
    void run(void) { for (int i = 0; i < amount; i++) MODIFY("incl", counter); }
    call(run);
}

static void __attribute__((noinline)) second(volatile int amount)
{
    void run(void) { for (int i = 0; i < amount; i++) MODIFY("incl", other); }
    call(run);
}

int main(void)
{
    for (int turn = 0; turn < 50; turn++) {
        first(2);
        second(4);
    }
    printf("%d %d\n", LOAD(counter), LOAD(other));
    return 0;
}
