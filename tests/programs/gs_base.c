// Asks for the base of gs and sets it to what it is, as programs do that save and restore it: that changes nothing.
// expect: counter size=4 loads=1 modifies=60
// stdout: 0 60
#include <asm/prctl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "access.h"

int counter;

int main(void)
{
    unsigned long base = 1;
    REPEAT(60) {
        if (syscall(SYS_arch_prctl, ARCH_GET_GS, &base) || syscall(SYS_arch_prctl, ARCH_SET_GS, base))
            return 1;
        MODIFY("incl", counter);
    }
    printf("%lu %d\n", base, LOAD(counter));
    return 0;
}
