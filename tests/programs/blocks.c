// Block operations: one event a call, also on the stack; the single accesses that it consists of are not events.
// build: -fno-builtin
// lackey: no
// translate: no
// expect: from size=1
// expect: to size=1
// block: memcpy kind=copy bytes=64 count=3 dst=to src=from
// block: memmove kind=copy bytes=64 count=2 dst=to src=from
// block: mempcpy kind=copy bytes=20 count=1 dst=to src=from
// block: memset kind=fill bytes=100 count=4 dst=to
// block: bzero kind=fill bytes=50 count=2 dst=to
// block: strcpy kind=copy bytes=12 count=1 dst=to src=from
// block: stpcpy kind=copy bytes=12 count=1 dst=to src=from
// block: strncpy kind=copy bytes=5 count=1 dst=to src=from
// block: strcat kind=copy bytes=12 count=1 src=from
// block: strncat kind=copy bytes=4 count=1 src=from
// block: strlen kind=fetch bytes=12 count=1 src=from
// block: strnlen kind=fetch bytes=5 count=1 src=from
// block: strcmp kind=fetch bytes=12 count=1 src=from dst=to
// block: strncmp kind=fetch bytes=6 count=1 src=from dst=to
// block: memcmp kind=fetch bytes=12 count=1 src=from dst=to
// block: memchr kind=fetch bytes=5 count=1 src=from
// block: strchr kind=fetch bytes=5 count=1 src=from
// block: memcpy kind=copy bytes=33 count=1 src=from
// stderr: hello world 0 0 0 11 5
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "access.h"

char from[256] = "hello world", to[256];

int main(void)
{
    char stack[64];
    REPEAT(2) memcpy(to, from, 64);
    REPEAT(2) memmove(to, from, 64);
    mempcpy(to, from, 20);
    REPEAT(4) memset(to, i_, 100);
    bzero(to, 50);
    strcpy(to, from);
    stpcpy(to, from);
    strncpy(to, from, 5);
    bzero(to + 100, 50);
    strcat(to + 100, from);
    strncat(to + 100, from, 3);
    long len = strlen(from), some = strnlen(from, 5);
    memcpy(to, from, 64);
    int a = strcmp(from, to), b = strncmp(from, to, 6), c = memcmp(from, to, 12);
    void *volatile found = memchr(from, 'o', 12);
    found = strchr(from, 'o');
    (void)found;
    memcpy(stack, from, 33);
    fprintf(stderr, "%s %d %d %d %ld %ld\n", stack, a, b, c, len, some);
    return 0;
}
