// Cells of 88 bytes, of which one byte is hot: an array of 100, walked 10 times; nodes that a function of our own allocates.
#include <stdlib.h>
#include <string.h>

struct cell {
    double temperature;      // 100 stores, never read
    int births, deaths;      // never used
    char label[64];          // never used
    unsigned char alive;     // 100 stores, 1000 loads
    unsigned char next;      // 100 stores, never read
    int age;                 // 100 stores, read and written 1000 times
};

struct node {
    struct node *next;       // 50 stores, 250 loads
    long value;              // 50 stores, 250 loads
    char name[16];           // written by strcpy
};

static volatile long sum;

static void __attribute__((noinline)) *get(size_t bytes)
{
    void *block = malloc(bytes);
    if (!block)
        abort();
    return block;
}

static void __attribute__((noinline)) fill(struct cell *cells)
{
    for (int i = 0; i < 100; i++) {
        struct cell *cell = &cells[i];
        cell->temperature = i;
        cell->alive = i & 1;
        cell->next = 0;
        cell->age = i;
    }
}

static int __attribute__((noinline)) count(struct cell *cells)
{
    int n = 0;
    for (int i = 0; i < 100; i++) {
        n += cells[i].alive;
        cells[i].age++;
    }
    return n;
}

static struct node *__attribute__((noinline)) push(struct node *list, long value)
{
    struct node *node = get(sizeof *node);
    node->next = list;
    node->value = value;
    strcpy(node->name, "node");
    return node;
}

static long __attribute__((noinline)) total(const struct node *list)
{
    long all = 0;
    for (; list; list = list->next)
        all += list->value;
    return all;
}

int main(void)
{
    struct cell *cells = get(100 * sizeof *cells);
    fill(cells);
    for (int i = 0; i < 10; i++)
        sum += count(cells);
    struct node *list = NULL;
    for (long i = 0; i < 50; i++)
        list = push(list, i);
    for (int i = 0; i < 5; i++)
        sum += total(list);
    return 0;
}
