// Findings name fields of heap blocks: one is written by two threads and read after its release, another is taken for two types.
// build: -pthread
#include <pthread.h>
#include <stdlib.h>

struct cell {
    long age;
    int alive;
    char label[20];
    long births;
};
struct token {
    long kind, line, start, end;
};
struct value {
    long tag, number, next, owner;
};

static struct cell *cell;

static __attribute__((noinline)) struct cell *make(void)
{
    struct cell *new = malloc(sizeof *new);
    new->age = 1;
    new->alive = 1;
    new->births = 0;
    return new;
}

static void *count(void *unused)
{
    cell->births++;
    return unused;
}

static __attribute__((noinline)) long is_alive(volatile struct cell *of)
{
    return of->alive;
}

// 61 accesses.
static __attribute__((noinline)) void as_token(volatile struct token *token)
{
    for (int i = 0; i < 61; i++)
        token->line = i;
}

// 39 accesses.
static __attribute__((noinline)) void as_value(volatile struct value *value)
{
    for (int i = 0; i < 39; i++)
        value->number = i;
}

int main(void)
{
    pthread_t a, b;
    cell = make();
    pthread_create(&a, 0, count, 0);
    pthread_create(&b, 0, count, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    void *both = malloc(32);
    as_token(both);
    as_value(both);
    free(cell);
    return is_alive(cell) == 7;
}
