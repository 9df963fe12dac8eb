// Recorded from the first call of one function to the first call of another one, without a change to the program.
// record: --start begin --stop end
// lackey: no
// expect: inside size=4 loads=10 stores=10
// expect: outside size=4
// stdout: 10 20
#include <stdio.h>
#include "access.h"

int inside, outside;

__attribute__((noinline, noclone)) void begin(void) { __asm__ volatile("nop"); }
__attribute__((noinline, noclone)) void end(void) { __asm__ volatile("nop"); }

int main(void)
{
    REPEAT(10) STORE(outside, LOAD(outside) + 1);
    begin();
    REPEAT(10) STORE(inside, LOAD(inside) + 1);
    end();
    REPEAT(10) STORE(outside, LOAD(outside) + 1);
    printf("%d %d\n", inside, outside);
    return 0;
}
