// A structure in a structure: its members are read alone, and both at once.
// stdout: 1000 0 7
#include <stdio.h>
#include <stdlib.h>
#include "../access.h"

struct point {
    int x, y;
};

struct body {
    struct point at;
    long id;
};

static struct point last;

int main(void)
{
    struct body *body = malloc(sizeof *body);
    STORE(body->at.x, 0);
    STORE(body->at.y, 0);
    STORE(body->id, 7);
    REPEAT(1000) {
        STORE(body->at.x, LOAD(body->at.x) + 1);
        last = body->at;
        __asm__ volatile("" : : : "memory");
    }
    printf("%d %d %ld\n", last.x, last.y, LOAD(body->id));
    free(body);
    return 0;
}
