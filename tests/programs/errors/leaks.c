// Blocks that are never released, each kind of them with a size of its own: what was still stored of them at the end. Built without PIE.
// build: -w -fno-builtin -O1
#include <stdlib.h>
#include <string.h>

#define CALL __attribute__((noinline, noclone))

struct node {
    struct node *next;
    char rest[];
};

static void *volatile kept;
static char *volatile middle;
static struct node *volatile chain;
static void **volatile moved, **volatile grown;
static volatile long seen;

static CALL void *block(size_t bytes)
{
    char *made = malloc(bytes);
    memset(made, 1, bytes);
    seen += made[bytes - 1];
    return made;
}

static CALL struct node *node(size_t bytes, struct node *next)
{
    struct node *made = block(bytes);
    made->next = next;
    return made;
}

static CALL void definite(void) { void *volatile local = block(1001); seen = *(char *)local; }
static CALL void overwritten(void) { kept = block(1002); kept = block(1003); }
static CALL void lost_chain(void) { chain = node(1011, node(1011, node(1011, 0))); chain = 0; }
static CALL void circle(void) { struct node *one = node(1021, node(1021, 0)); one->next->next = one; }
static CALL void chained(void) { chain = node(1031, node(1031, 0)); }
static CALL void inside(void) { middle = (char *)block(1041) + 16; ((struct node *)(middle - 16))->next = block(1041); }

/* The C library moves as much as this in other ways than the compiler. */
enum { MANY = 4000 };

static CALL void moves(void)
{
    void **first = calloc(MANY, sizeof *first);
    first[MANY - 7] = block(1051);
    moved = malloc(MANY * sizeof *moved);
    memcpy(moved, first, MANY * sizeof *first);
    memset(first, 0, MANY * sizeof *first);
    free(first);
}

static CALL void grows(void)
{
    void **first = malloc(10 * sizeof *first);
    memset(first, 0, 10 * sizeof *first);
    first[3] = block(1061);
    void *wall = block(1062);
    grown = realloc(first, 3 * MANY);
    free(wall);
}

int main(void)
{
    void *volatile local = block(1071);
    definite();
    overwritten();
    lost_chain();
    circle();
    chained();
    inside();
    moves();
    grows();
    /* Whose frame is there until the end. */
    exit(0);
}
