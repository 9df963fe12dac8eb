// Blocks that objects of several types share: one of an allocator of the program's own, used twice, and one that two objects are put in.
#include <stdlib.h>
#include <sys/mman.h>

struct node {
    struct node *next;       // 60 stores, 600 loads
    long value;              // 60 stores, 600 loads
    int hits;                // 60 stores, read and written 600 times
};

struct edge {
    struct node *from, *to;  // 30 stores, 150 loads; 30 stores, never read
    double weight;           // 30 stores, 150 loads
    long marks[2];           // never used
    int seen;                // 30 stores
};

struct sorter {
    long count;              // 3 stores, 30 loads
    struct keys *keys;       // 3 stores, 30 loads
    char name[24];           // never used
};

struct keys {
    int first, second;       // 3 stores, 30 loads; 3 stores, never read
};

static char *pool, *next;

static void __attribute__((noipa)) *take(size_t bytes)
{
    char *taken = next;
    next += bytes;
    return taken;
}

static struct node *__attribute__((noipa)) push(struct node *list, long value)
{
    struct node *node = take(sizeof *node);
    node->next = list;
    node->value = value;
    node->hits = 0;
    return node;
}

static struct edge *__attribute__((noipa)) join(struct node *from, struct node *to, int weight)
{
    struct edge *edge = take(sizeof *edge);
    edge->from = from;
    edge->to = to;
    edge->weight = weight;
    edge->seen = 0;
    return edge;
}

static long __attribute__((noipa)) total(struct node *list)
{
    long sum = 0;
    for (struct node *node = list; node; node = node->next) {
        sum += node->value;
        node->hits++;
    }
    return sum;
}

static struct node *__attribute__((noipa)) origin(const struct edge *edge)
{
    return edge->from;
}

static double __attribute__((noipa)) weight(const struct edge *edge)
{
    return edge->weight;
}

// The second time there are more edges, so that they lie where nodes were.
static long __attribute__((noipa)) use(int edges)
{
    struct node *list = NULL;
    struct edge *all[20];
    long sum = 0;
    next = pool;
    for (int i = 0; i < edges; i++)
        all[i] = join(list, list, i);
    for (int i = 0; i < 30; i++)
        list = push(list, i);
    for (int i = 0; i < 10; i++)
        sum += total(list);
    for (int i = 0; i < edges; i++)
        for (int n = 0; n < 5; n++)
            sum += weight(all[i]) + (origin(all[i]) != NULL);
    return sum;
}

static struct sorter *__attribute__((noipa)) sorter(int count)
{
    struct sorter *sorter = malloc(sizeof *sorter + sizeof *sorter->keys);
    if (!sorter)
        abort();
    sorter->count = count;
    sorter->keys = (struct keys *)(sorter + 1);
    sorter->keys->first = count;
    sorter->keys->second = 0;
    return sorter;
}

static long __attribute__((noipa)) sort(const struct sorter *sorter)
{
    return sorter->count + sorter->keys->first;
}

int main(void)
{
#ifdef MAPPED
    pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pool == MAP_FAILED)
        abort();
#else
    pool = malloc(4096);
    if (!pool)
        abort();
#endif
    long sum = use(10) + use(20);
    for (int i = 0; i < 3; i++) {
        struct sorter *one = sorter(i);
        for (int n = 0; n < 10; n++)
            sum += sort(one);
    }
    return sum == 9935 ? 0 : 1;
}
