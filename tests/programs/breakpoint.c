// A breakpoint that nobody handles ends the program by SIGTRAP.
// lackey: no
// stdout: before
// status: 133
// expect: counter size=4 stores=3
#include <stdio.h>
#include <sys/resource.h>
#include "access.h"

int counter;

int main(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    puts("before");
    fflush(stdout);
    for (int i = 0; i < 3; i++)
        STORE(counter, i);
    __asm__ volatile("int3");
    STORE(counter, 3);
    puts("after");
    return 0;
}
