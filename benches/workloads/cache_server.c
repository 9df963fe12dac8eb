/* A cache as a server keeps it: values of 64 bytes to 64 KiB, the least recently used ones thrown away where there is no more room,
 * and keys of which some are asked for far more often. By night few ask, and what was not asked for an hour expires.
 * Arguments: requests, bytes of values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 1 << 14, HOURS = 24 };

struct value {
    struct value *newer, *older;
    unsigned key, hour;
    size_t bytes;
    unsigned char data[];
};

static struct value *table[KEYS], ends = {&ends, &ends, 0, 0, 0};
static size_t used;
static unsigned long state = 1;

static unsigned next(void)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(state >> 33);
}

/* As many of 64 to 127 bytes as of 32 to 64 KiB. */
static size_t some_bytes(void)
{
    unsigned octave = next() % 10;
    return (64ul << octave) + next() % (64ul << octave);
}

static void take_out(struct value *value)
{
    value->newer->older = value->older;
    value->older->newer = value->newer;
}

static void put_first(struct value *value)
{
    value->older = ends.older;
    value->newer = &ends;
    ends.older->newer = value;
    ends.older = value;
}

static void drop(struct value *value)
{
    take_out(value);
    table[value->key] = NULL;
    used -= value->bytes;
    free(value);
}

int main(int argc, char **argv)
{
    unsigned requests = argc > 1 ? (unsigned)atoi(argv[1]) : 30000;
    size_t most = argc > 2 ? strtoul(argv[2], NULL, 0) : 8ul << 20;
    unsigned long hits = 0, sum = 0;
    for (unsigned hour = 0; hour < HOURS; hour++) {
        unsigned busy = hour < 8 ? 1 : 8;
        for (unsigned request = 0; request < requests * busy / (8 * HOURS); request++) {
            /* The product of two numbers: low keys come far more often. */
            unsigned key = (unsigned)((unsigned long)(next() % KEYS) * (next() % KEYS) / KEYS);
            struct value *value = table[key];
            if (value) {
                hits++;
                take_out(value);
            } else {
                size_t bytes = some_bytes();
                while (used + bytes > most)
                    drop(ends.newer);
                value = malloc(sizeof *value + bytes);
                if (!value)
                    abort();
                memset(value->data, (int)key, bytes);
                value->key = key;
                value->bytes = bytes;
                used += bytes;
                table[key] = value;
            }
            value->hour = hour;
            sum += value->data[value->bytes / 2];
            put_first(value);
        }
        while (ends.newer != &ends && ends.newer->hour + 1 < hour)
            drop(ends.newer);
    }
    printf("%lu hits, sum %lu, %zu bytes\n", hits, sum, used);
    return 0;
}
