// A function that is called again and again, until it is in a path with its callers, and is written anew now and then: by the caller right before
// it calls, and by another process's mapping of the same page.
// translate: only
// lackey: no
// expect: counter size=4 loads=1 modifies=120000
// expect: other size=4 loads=1 modifies=120000
// stdout: 120000 120000
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "access.h"

int counter, other;

typedef void (*Form)(int *, int *);

static void call(Form form)
{
    form(&counter, &other);
}

int main(void)
{
    // incl (%rdi); ret - and the same on rsi.
    static const unsigned char forms[2][3] = {{0xff, 0x07, 0xc3}, {0xff, 0x06, 0xc3}};
    int file = memfd_create("code", 0);
    if (ftruncate(file, 4096))
        return 1;
    int rights = PROT_READ | PROT_WRITE | PROT_EXEC;
    unsigned char *code = mmap(0, 4096, rights, MAP_SHARED, file, 0);
    unsigned char *view = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memcpy(code, forms[0], 3);
    for (int turn = 0; turn < 240000; turn++) {
        if (turn % 6000 == 0)
            memcpy(turn % 12000 ? code : view, forms[turn / 6000 % 2], 3);
        call((Form)(void *)code);
    }
    printf("%d %d\n", LOAD(counter), LOAD(other));
    return 0;
}
