// Objects as an interpreter has them: a header that is the same in all, a union with a tag, a table of nodes that are a union.
// stdout: 335850
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 64
#define ROUNDS 100

typedef struct object {
    struct object *next;
    unsigned char kind, marked;
} object;

typedef union value {
    object *object;
    void *pointer;
    long integer;
    double number;
} value;

typedef struct slot {
    value value;
    unsigned char tag;
} slot;

typedef struct string {
    struct object *next;
    unsigned char kind, marked;
    unsigned hash;
    size_t len;
    char text[];
} string;

typedef union node {
    struct {
        value value;
        unsigned char tag, key_tag;
        int unused;
        value key;
    } entry;
    slot slot;
} node;

typedef struct table {
    struct object *next;
    unsigned char kind, marked, mask;
    slot *slots;
    node *nodes;
} table;

static object *objects;

__attribute__((noinline)) void *new_object(int kind, size_t bytes) {
    object *made = malloc(bytes);
    made->kind = kind;
    made->marked = 0;
    made->next = objects;
    objects = made;
    return made;
}

__attribute__((noinline)) string *new_string(const char *text) {
    size_t len = strlen(text);
    string *made = new_object(1, sizeof *made + len + 1);
    made->len = len;
    made->hash = (unsigned)len;
    memcpy(made->text, text, len + 1);
    return made;
}

__attribute__((noinline)) table *new_table(void) {
    table *made = new_object(2, sizeof *made);
    made->mask = 7;
    made->slots = calloc(SLOTS, sizeof(slot));
    made->nodes = calloc(8, sizeof(node));
    return made;
}

__attribute__((noinline)) void set_integer(table *of, int at, long integer) {
    slot *slot = &of->slots[at];
    slot->value.integer = integer;
    slot->tag = 1;
}

__attribute__((noinline)) void set_number(table *of, int at, double number) {
    slot *slot = &of->slots[at];
    slot->value.number = number;
    slot->tag = 2;
}

__attribute__((noinline)) double value_of(const table *of, int at) {
    const slot *slot = &of->slots[at];
    return slot->tag == 1 ? (double)slot->value.integer : slot->value.number;
}

__attribute__((noinline)) void set_field(table *of, string *key, long integer) {
    node *node = &of->nodes[key->hash & of->mask];
    node->entry.key.object = (object *)key;
    node->entry.key_tag = 1;
    node->slot.value.integer = integer;
    node->slot.tag = 1;
}

__attribute__((noinline)) long field(const table *of, const string *key) {
    const node *node = &of->nodes[key->hash & of->mask];
    if (node->entry.key_tag != 1 || node->entry.key.object != (object *)key) {
        return 0;
    }
    return node->slot.value.integer;
}

__attribute__((noinline)) int mark(void) {
    int count = 0;
    for (object *one = objects; one; one = one->next) {
        one->marked = 1;
        count++;
    }
    return count;
}

int main(void) {
    table *made = new_table();
    string *first = new_string("hello");
    string *second = new_string("second");
    double sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = 0; at < SLOTS; at++) {
            if (at % 2) {
                set_integer(made, at, round);
            } else {
                set_number(made, at, round);
            }
        }
        for (int at = 0; at < SLOTS; at++) {
            sum += value_of(made, at);
        }
        set_field(made, first, round);
        set_field(made, second, 2 * round);
        sum += (double)(field(made, first) + field(made, second));
        sum += 14 * mark();
    }
    printf("%.0f\n", sum);
    return 0;
}
