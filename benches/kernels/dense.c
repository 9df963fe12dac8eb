// Memory-dense loops, about 2 instructions an access.
// usage: dense copy|sum|list|hash|sort ACCESSES
#include <stdlib.h>
#include <string.h>
#include "memtap.h"

#define CELLS 4096
static long from[CELLS], to[CELLS];
static struct node { struct node *next; long value; } nodes[CELLS];
static unsigned table[CELLS];

static void copy(long n)
{
    for (long i = 0; i < n / 2; i++) {
        long value;
        __asm__ volatile("movq %1, %0" : "=r"(value) : "m"(from[i & (CELLS - 1)]));
        __asm__ volatile("movq %1, %0" : "=m"(to[i & (CELLS - 1)]) : "r"(value));
    }
}

static void sum(long n)
{
    long total = 0;
    for (long i = 0; i < n; i++)
        __asm__ volatile("addq %1, %0" : "+r"(total) : "m"(from[i & (CELLS - 1)]) : "cc");
}

static void list(long n)
{
    struct node *node = nodes;
    for (long i = 0; i < n; i++)
        __asm__ volatile("movq (%0), %0" : "+r"(node));
}

static void hash(long n)
{
    unsigned key = 1;
    for (long i = 0; i < n; i++) {
        unsigned found;
        key = key * 1664525 + 1013904223;
        __asm__ volatile("movl %1, %0" : "=r"(found) : "m"(table[key >> 20]));
    }
}

static int compare(const void *a, const void *b) { return *(const long *)a < *(const long *)b ? -1 : 1; }

static void sort(long n)
{
    // About 12 comparisons an element, 2 accesses each, and the moves.
    for (long done = 0; done < n; done += CELLS * 30) {
        unsigned long x = 1;
        for (int i = 0; i < CELLS; i++)
            to[i] = x = x * 6364136223846793005ul + 1442695040888963407ul;
        qsort(to, CELLS, sizeof *to, compare);
    }
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "copy";
    long n = count > 2 ? atol(arguments[2]) : 1000;
    for (int i = 0; i < CELLS; i++)
        nodes[i].next = &nodes[(i * 1031 + 7) & (CELLS - 1)];
    memtap_start();
    if (!strcmp(what, "copy"))
        copy(n);
    else if (!strcmp(what, "sum"))
        sum(n);
    else if (!strcmp(what, "list"))
        list(n);
    else if (!strcmp(what, "hash"))
        hash(n);
    else if (!strcmp(what, "sort"))
        sort(n);
    else
        return 2;
    memtap_stop();
    return 0;
}
