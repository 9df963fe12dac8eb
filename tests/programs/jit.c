// Code that the program writes and runs itself: also when it overwrites code that has run before.
// lackey: no
// expect: counter size=4 loads=11 modifies=60
// expect: other size=4 modifies=60
// stdout: 60 60
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "access.h"

int counter, other;

int main(void)
{
    // incl (%rdi); ret - and the same with decl, and on rsi.
    static const unsigned char forms[3][3] = {{0xff, 0x07, 0xc3}, {0xff, 0x06, 0xc3}, {0xff, 0x0f, 0xc3}};
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void (*run)(int *, int *) = (void (*)(int *, int *))code;
    for (int turn = 0; turn < 120; turn++) {
        for (int i = 0; i < 3; i++)
            ((volatile unsigned char *)code)[i] = forms[turn % 2][i];
        run(&counter, &other);
    }
    REPEAT(10) LOAD(counter);
    printf("%d %d\n", LOAD(counter), 60);
    munmap(code, 4096);
    return 0;
}
