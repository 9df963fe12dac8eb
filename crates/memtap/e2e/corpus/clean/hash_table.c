// A hash table of chains that grows and is released.
// command: errors
// record: --data
// expect: nothing
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

struct entry {
    struct entry *next;
    int count;
    char key[];
};

static struct entry **slots;
static unsigned room, used;

static unsigned hash(const char *key)
{
    unsigned value = 5381;
    while (*key)
        value = value * 33 + (unsigned char)*key++;
    return value;
}

static void grow(void)
{
    unsigned more = room ? 2 * room : 8;
    struct entry **larger = calloc(more, sizeof *larger);
    for (unsigned i = 0; i < room; i++) {
        while (slots[i]) {
            struct entry *entry = slots[i];
            slots[i] = entry->next;
            entry->next = larger[hash(entry->key) % more];
            larger[hash(entry->key) % more] = entry;
        }
    }
    free(slots);
    slots = larger;
    room = more;
}

NOINLINE static void count(const char *key)
{
    if (used >= room)
        grow();
    struct entry **at = &slots[hash(key) % room];
    for (; *at; at = &(*at)->next)
        if (strcmp((*at)->key, key) == 0) {
            (*at)->count++;
            return;
        }
    size_t len = strlen(key) + 1;
    *at = malloc(sizeof **at + len);
    (*at)->next = NULL;
    (*at)->count = 1;
    memcpy((*at)->key, key, len);
    used++;
}

int main(void)
{
    char key[32];
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "key %d", i % 90);
        count(key);
    }
    for (unsigned i = 0; i < room; i++)
        while (slots[i]) {
            struct entry *entry = slots[i];
            slots[i] = entry->next;
            free(entry);
        }
    free(slots);
    slots = NULL;
    return 0;
}
