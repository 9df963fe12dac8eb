/* Threads that count words in hash tables: each has a table of its own and then adds it to one that all share, under a lock.
 * Arguments: threads, words for each. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 12, KINDS = 3000 };

struct entry {
    struct entry *next;
    unsigned long hash;
    long count;
    char word[16];
};

struct table {
    struct entry *slots[SLOTS];
    long words;
};

struct worker {
    pthread_t thread;
    unsigned long state;
    struct table *own;
};

static struct table *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long words;

static void add(struct table *table, const char *word, long count)
{
    unsigned long hash = 5381;
    for (const char *c = word; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    struct entry **slot = &table->slots[hash % SLOTS], *entry;
    for (entry = *slot; entry; entry = entry->next)
        if (entry->hash == hash && !strcmp(entry->word, word))
            break;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        entry->next = *slot;
        entry->hash = hash;
        strcpy(entry->word, word);
        *slot = entry;
    }
    entry->count += count;
    table->words += count;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    worker->own = calloc(1, sizeof *worker->own);
    for (long n = 0; n < words; n++) {
        char word[16];
        worker->state = worker->state * 6364136223846793005ul + 1442695040888963407ul;
        unsigned kind = (unsigned)(worker->state >> 33) % KINDS, at = 0;
        for (; kind; kind /= 26)
            word[at++] = (char)('a' + kind % 26);
        word[at] = 0;
        add(worker->own, word, 1);
    }
    pthread_mutex_lock(&lock);
    for (int slot = 0; slot < SLOTS; slot++)
        for (struct entry *entry = worker->own->slots[slot]; entry; entry = entry->next)
            add(all, entry->word, entry->count);
    pthread_mutex_unlock(&lock);
    return 0;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    words = argc > 2 ? atol(argv[2]) : 100000;
    struct worker *workers = calloc((size_t)threads, sizeof *workers);
    all = calloc(1, sizeof *all);
    for (int n = 0; n < threads; n++) {
        workers[n].state = (unsigned long)n + 1;
        pthread_create(&workers[n].thread, 0, work, &workers[n]);
    }
    for (int n = 0; n < threads; n++)
        pthread_join(workers[n].thread, 0);
    printf("%ld\n", all->words);
    return 0;
}
