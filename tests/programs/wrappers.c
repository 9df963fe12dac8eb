// Allocators' wrappers, which are no allocation sites, and functions that look like them: crates/memtap/e2e/tests/sites.rs says what
// each is.
// build: -O1 -fno-optimize-sibling-calls -fno-inline
// status: 0
#include <stdlib.h>
#include <string.h>
#include "access.h"

#define FUNCTION __attribute__((noinline, noclone))

// Wrappers: what they allocate they return, and their callers say how much.
FUNCTION void *xmalloc(size_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL) abort();
    return block;
}
FUNCTION void *xzalloc(size_t bytes) { return memset(xmalloc(bytes), 0, bytes); }
FUNCTION void *xrealloc(void *block, size_t bytes)
{
    void *grown = realloc(block, bytes);
    if (grown == NULL) abort();
    return grown;
}
FUNCTION void *l_alloc(void *state, void *block, size_t old_bytes, size_t bytes)
{
    (void)state, (void)old_bytes;
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, bytes);
}

// Returns what it allocates, but what that is it knows itself.
struct node { struct node *next; long value; };
FUNCTION struct node *make_node(struct node *next, long value)
{
    struct node *node = xmalloc(sizeof *node);
    node->next = next;
    node->value = value;
    return node;
}

// Keeps what it allocates.
struct buffer { char *bytes; size_t len; };
FUNCTION int grow(struct buffer *buffer, size_t len)
{
    buffer->bytes = xrealloc(buffer->bytes, len);
    buffer->len = len;
    STORE(*(long *)buffer->bytes, len);
    return 1;
}

FUNCTION char *copy(const char *text) { return strcpy(xmalloc(strlen(text) + 1), text); }

FUNCTION void uses(long turns)
{
    struct node *list = NULL;
    for (long turn = 0; turn < turns; turn++) list = make_node(list, turn);
    while (list != NULL) {
        struct node *next = list->next;
        free(list);
        list = next;
    }
    struct buffer buffer = {NULL, 0};
    for (long turn = 1; turn <= turns; turn++) grow(&buffer, turn * 100);
    free(buffer.bytes);
    for (long turn = 1; turn <= turns; turn++) {
        long *words = xzalloc(turn * sizeof(long));
        STORE(words[0], turn);
        free(words);
        long *block = l_alloc(NULL, NULL, 0, turn * 10);
        STORE(*block, turn);
        l_alloc(NULL, block, turn * 10, 0);
    }
    free(copy("some text"));
}

int main(void)
{
    uses(5);
    return 0;
}
