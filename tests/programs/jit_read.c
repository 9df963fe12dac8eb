// Code that the kernel writes for the program: read and readv over code that has run before.
// lackey: no
// expect: counter size=4 loads=1 modifies=60
// expect: other size=4 loads=1 modifies=60
// stdout: 60 60
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include "access.h"

int counter, other;

int main(void)
{
    // incl (%rdi); ret - and the same on rsi.
    static const unsigned char forms[2][3] = {{0xff, 0x07, 0xc3}, {0xff, 0x06, 0xc3}};
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void (*run)(int *, int *) = (void (*)(int *, int *))code;
    struct iovec vector = {code, 3};
    int ends[2];
    if (pipe(ends))
        return 1;
    for (int turn = 0; turn < 120; turn++) {
        if (write(ends[1], forms[turn % 2], 3) != 3)
            return 2;
        if ((turn % 3 ? read(ends[0], code, 3) : readv(ends[0], &vector, 1)) != 3)
            return 3;
        run(&counter, &other);
    }
    printf("%d %d\n", LOAD(counter), LOAD(other));
    return 0;
}
