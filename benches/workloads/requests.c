/* A server that keeps what belongs to a request in an arena: a list of chunks that are released together at its end. Several requests
 * are open at a time; one in fifty leaves a session behind, which lives for a thousand requests. Arguments: requests, requests at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 32 << 10, SESSIONS = 64 };

struct chunk {
    struct chunk *next;
    size_t used;
    unsigned char bytes[CHUNK_BYTES];
};

static unsigned long state = 1;

static unsigned next(void)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(state >> 33);
}

static void *of_arena(struct chunk **arena, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (!*arena || (*arena)->used + bytes > CHUNK_BYTES) {
        struct chunk *chunk = malloc(sizeof *chunk);
        if (!chunk)
            abort();
        chunk->next = *arena;
        chunk->used = 0;
        *arena = chunk;
    }
    (*arena)->used += bytes;
    return (*arena)->bytes + (*arena)->used - bytes;
}

static void release(struct chunk *arena)
{
    while (arena) {
        struct chunk *chunk = arena;
        arena = chunk->next;
        free(chunk);
    }
}

int main(int argc, char **argv)
{
    unsigned requests = argc > 1 ? (unsigned)atoi(argv[1]) : 3000, at_a_time = argc > 2 ? (unsigned)atoi(argv[2]) : 16;
    struct chunk **open = calloc(at_a_time, sizeof *open);
    char *sessions[SESSIONS] = {0};
    unsigned left = 0;
    unsigned long sum = 0;
    if (!open)
        abort();
    for (unsigned request = 0; request < requests; request++) {
        struct chunk **arena = &open[next() % at_a_time];
        release(*arena);
        *arena = NULL;
        /* Most are small; one in twenty answers with a megabyte. */
        size_t wanted = next() % 20 ? 4096 + next() % (60u << 10) : 1u << 20;
        for (size_t made = 0; made < wanted;) {
            size_t bytes = 32 + next() % 2000;
            unsigned char *object = of_arena(arena, bytes);
            memset(object, (int)request, bytes);
            sum += object[bytes - 1];
            made += bytes;
        }
        if (next() % 50 == 0) {
            char **session = &sessions[left++ % SESSIONS];
            free(*session);
            *session = malloc(200);
            if (!*session)
                abort();
            memset(*session, 1, 200);
        }
    }
    for (unsigned at = 0; at < at_a_time; at++)
        release(open[at]);
    for (unsigned at = 0; at < SESSIONS; at++)
        free(sessions[at]);
    free(open);
    printf("sum %lu\n", sum);
    return 0;
}
