/* Counts how often each element occurs in each of several streams, as the paper's "mc" does. Each stream is read into blocks,
 * counted in a table that grows by doubling, and gone before the next one begins. Arguments: streams, elements. */
#include <stdio.h>
#include <stdlib.h>

struct table {
    unsigned *keys, *counts;
    size_t size, used;
};

static void add(struct table *table, unsigned key, unsigned count);

static void make(struct table *table, size_t size)
{
    *table = (struct table){calloc(size, sizeof(unsigned)), calloc(size, sizeof(unsigned)), size, 0};
    if (!table->keys || !table->counts)
        abort();
}

static void grow(struct table *table)
{
    struct table old = *table;
    make(table, old.size * 2);
    for (size_t i = 0; i < old.size; i++)
        if (old.counts[i])
            add(table, old.keys[i], old.counts[i]);
    free(old.keys);
    free(old.counts);
}

static void add(struct table *table, unsigned key, unsigned count)
{
    size_t at = key * 2654435761u % table->size;
    while (table->counts[at] && table->keys[at] != key)
        at = (at + 1) % table->size;
    if (!table->counts[at]) {
        table->keys[at] = key;
        table->used++;
    }
    table->counts[at] += count;
    if (table->used * 2 > table->size)
        grow(table);
}

int main(int argc, char **argv)
{
    unsigned streams = argc > 1 ? (unsigned)atoi(argv[1]) : 5, elements = argc > 2 ? (unsigned)atoi(argv[2]) : 20000;
    unsigned long sum = 0;
    for (unsigned stream = 1; stream <= streams; stream++) {
        unsigned *input = malloc(elements * sizeof *input);
        if (!input)
            abort();
        unsigned state = stream;
        for (unsigned i = 0; i < elements; i++) {
            state = state * 1664525u + 1013904223u;
            input[i] = (state >> 8) % (elements / stream + 1);
        }
        struct table table;
        make(&table, 16);
        for (unsigned i = 0; i < elements; i++)
            add(&table, input[i], 1);
        free(input);
        for (size_t i = 0; i < table.size; i++)
            sum += table.counts[i];
        free(table.keys);
        free(table.counts);
    }
    printf("%lu\n", sum);
    return 0;
}
