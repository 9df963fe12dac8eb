// Code that is written through another mapping than the one in which it runs, as some compilers at run time do.
// lackey: no
// expect: counter size=4 loads=1 modifies=180
// expect: other size=4 loads=1 modifies=180
// stdout: 180 180
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include "access.h"

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE, RX = PROT_READ | PROT_EXEC };

int counter, other;

// incl (%rdi); ret - and the same on rsi.
static const unsigned char forms[2][3] = {{0xff, 0x07, 0xc3}, {0xff, 0x06, 0xc3}};

static void write_code(unsigned char *view, int turn)
{
    for (int i = 0; i < 3; i++)
        ((volatile unsigned char *)view)[i] = forms[turn % 2][i];
}

static void run(unsigned char *code)
{
    ((void (*)(int *, int *))code)(&counter, &other);
}

int main(void)
{
    int file = memfd_create("code", 0), ends[2];
    if (file < 0 || ftruncate(file, 2 * PAGE) || pipe(ends))
        return 1;
    unsigned char *code = mmap(0, PAGE, RX, MAP_SHARED, file, PAGE);
    unsigned char *view = mmap(0, 2 * PAGE, RW, MAP_SHARED, file, 0);
    if (code == MAP_FAILED || view == MAP_FAILED)
        return 2;
    // Both are there all the time.
    for (int turn = 0; turn < 60; turn++) {
        write_code(view + PAGE, turn);
        run(code);
    }
    // The kernel writes for the program.
    for (int turn = 0; turn < 60; turn++) {
        if (write(ends[1], forms[turn % 2], 3) != 3 || read(ends[0], view + PAGE, 3) != 3)
            return 3;
        run(code);
    }
    // The one that can be written gets that right for each time only.
    for (int turn = 0; turn < 60; turn++) {
        mprotect(view, 2 * PAGE, RW);
        write_code(view + PAGE, turn);
        mprotect(view, 2 * PAGE, PROT_READ);
        run(code);
    }
    munmap(view, 2 * PAGE);
    // It is there for each time only.
    for (int turn = 0; turn < 60; turn++) {
        view = mmap(0, PAGE, RW, MAP_SHARED, file, PAGE);
        write_code(view, turn);
        munmap(view, PAGE);
        run(code);
    }
    munmap(code, PAGE);
    // Memory without a file, and its second view.
    code = mmap(0, PAGE, RX, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    view = mremap(code, 0, PAGE, MREMAP_MAYMOVE);
    if (code == MAP_FAILED || view == MAP_FAILED || mprotect(view, PAGE, RW))
        return 4;
    for (int turn = 0; turn < 60; turn++) {
        write_code(view, turn);
        run(code);
    }
    munmap(view, PAGE);
    munmap(code, PAGE);
    // One that can be written and executed at once, and moves.
    code = mmap(0, PAGE, RW | RX, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    view = mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int turn = 0; turn < 60; turn++) {
        write_code(code, turn);
        run(code);
        unsigned char *to = view;
        view = code;
        code = mremap(code, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
        if (code != to)
            return 5;
    }
    printf("%d %d\n", LOAD(counter), LOAD(other));
    return 0;
}
