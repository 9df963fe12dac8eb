// One error a run: `cases NAME` makes it, `cases NAME right` is the same function without it; without arguments, the names with what
// memtap errors must tell, once each. A right run has nothing to be told, leaks and unused blocks included.
// build: -w -fno-builtin -O1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASE(name) static __attribute__((noinline, noclone)) void name(int wrong)

static volatile long seen;
static char *volatile kept;
static int table[16] = {1};
static long matrix[4][4] = {{1}};

struct node {
    struct node *next;
    long value;
};
struct record {
    int id, flags;
    char name[16];
};

/* 24 and 40 bytes are all that the allocator has there. */
static char *filled(size_t bytes)
{
    char *block = malloc(bytes);
    memset(block, 1, bytes);
    return block;
}

static struct node *list(int length)
{
    struct node *first = 0;
    for (int i = 0; i < length; i++) {
        struct node *node = malloc(sizeof *node);
        node->next = first;
        node->value = i;
        first = node;
    }
    return first;
}

static void release(struct node *first)
{
    while (first) {
        struct node *next = first->next;
        free(first);
        first = next;
    }
}

CASE(load_past_the_end) { char *b = filled(24); seen = ((volatile char *)b)[23 + wrong]; free(b); }
CASE(store_past_the_end) { long *b = (long *)filled(40); long old = ((volatile long *)b)[4 + wrong]; ((volatile long *)b)[4 + wrong] = old; free(b); }
CASE(load_before_the_start) { char *b = filled(24); seen = ((volatile char *)b)[-wrong]; free(b); }
CASE(word_before_the_start) { long *b = (long *)filled(24); seen = ((volatile long *)b)[-wrong]; free(b); }
CASE(loop_one_too_far)
{
    int *b = (int *)filled(40);
    long sum = 0;
    for (int i = 0; i < 10 + wrong; i++)
        sum += ((volatile int *)b)[i];
    seen = sum;
    free(b);
}
CASE(past_zeroed) { char *b = calloc(3, 8); b[1] = 1; seen = ((volatile char *)b)[23 + wrong]; free(b); }
CASE(past_grown) { char *b = realloc(filled(24), 40); b[39] = 1; seen = ((volatile char *)b)[39 + wrong]; free(b); }
CASE(modify_past_the_end) { char *b = filled(56); ((volatile char *)b)[55 + wrong] |= 0; free(b); }
CASE(load_after_free) { char *b = filled(40); if (wrong) free(b); seen = *(volatile long *)(b + 16); if (!wrong) free(b); }
CASE(store_after_free) { char *b = filled(40); if (wrong) free(b); *(volatile long *)(b + 16) = 7; if (!wrong) free(b); }
CASE(field_after_free)
{
    struct record *r = malloc(sizeof *r);
    memset(r, 0, sizeof *r);
    if (wrong)
        free(r);
    seen = ((volatile struct record *)r)->flags;
    if (!wrong)
        free(r);
}
CASE(walk_over_released)
{
    struct node *first = list(1), *next;
    if (wrong) {
        free(first);
        seen = ((volatile struct node *)first)->value;
    } else {
        next = first->next;
        seen = first->value;
        free(first);
        release(next);
    }
}
CASE(old_block_of_realloc)
{
    char *b = filled(24);
    char *wall = filled(24);
    char *new = realloc(b, 4000);
    new[0] = 2;
    seen = wrong ? ((volatile char *)b)[16] : ((volatile char *)new)[16];
    free(new);
    free(wall);
}
CASE(released_by_realloc) { char *b = filled(24), *wall = filled(24), *new = realloc(b, 5000); new[0] = 2; *(volatile char *)(wrong ? b + 20 : new + 20) = 1; free(new); free(wall); }
CASE(freed_twice) { char *b = filled(40); free(b); if (wrong) free(b); }
CASE(freed_in_the_middle) { char *b = filled(40); free(wrong ? b + 16 : b); }
CASE(freed_on_the_stack) { char local[64]; char *b = filled(40); memset(local, 0, 64); free(b); if (wrong) { kept = local + 16; free(kept); } }
CASE(freed_static) { char *b = filled(40); free(b); if (wrong) { kept = (char *)(table + 4); free(kept); } }
CASE(compares_unwritten) { int *b = malloc(40); b[0] = 1; if (!wrong) b[2] = 1; if (b[2] > 3) seen = 1; free(b); }
CASE(loads_and_compares_unwritten) { int *b = malloc(40); b[0] = 1; if (!wrong) b[2] = 1; if (((volatile int *)b)[2] > 3) seen = 1; free(b); }
CASE(tests_unwritten) { char *b = malloc(40); b[0] = 1; if (!wrong) b[7] = 1; if (((volatile char *)b)[7] == 9) seen = 1; free(b); }
CASE(unwritten_field) { struct record *r = malloc(sizeof *r); r->id = 1; if (!wrong) r->flags = 0; if (((volatile struct record *)r)->flags == 4) seen = 1; free(r); }
CASE(unwritten_in_a_loop)
{
    int *b = malloc(40);
    for (int i = 0; i < 10 - wrong; i++)
        b[i] = i;
    for (int i = 0; i < 10; i++)
        if (((volatile int *)b)[i] == 77)
            seen = i;
    free(b);
}
CASE(never_released) { char *b = filled(100); seen = b[5]; if (!wrong) free(b); }
CASE(overwritten_pointer) { kept = filled(70); if (!wrong) free(kept); kept = filled(71); free(kept); }
CASE(lost_list) { struct node *first = list(1); seen = first->value; if (!wrong) release(first); }
CASE(lost_copy) { char *copy = strdup("some words that are copied"); seen = copy[3]; if (!wrong) free(copy); }
CASE(never_used) { char *b = malloc(64); if (!wrong) b[1] = 1; free(b); }
CASE(released_at_once) { if (wrong) { char *b = filled(30); seen = b[1]; free(b); } }
CASE(static_array_too_far) { for (int i = 0; i < 16 + wrong; i++) seen += ((volatile int *)table)[i]; }
CASE(static_matrix_too_far) { for (int i = 0; i < 4 + wrong; i++) seen += ((volatile long (*)[4])matrix)[i][1]; }

static const struct {
    const char *name, *kind;
    void (*run)(int);
} cases[] = {
#define OF(name, kind) {#name, kind, name}
    OF(load_past_the_end, "out_of_bounds"), OF(store_past_the_end, "out_of_bounds"),
    OF(load_before_the_start, "out_of_bounds"), OF(word_before_the_start, "out_of_bounds"),
    OF(loop_one_too_far, "out_of_bounds"), OF(past_zeroed, "out_of_bounds"), OF(past_grown, "out_of_bounds"),
    OF(modify_past_the_end, "out_of_bounds"), OF(load_after_free, "use_after_free"),
    OF(store_after_free, "use_after_free"), OF(field_after_free, "use_after_free"),
    OF(walk_over_released, "use_after_free"), OF(old_block_of_realloc, "use_after_free"),
    OF(released_by_realloc, "use_after_free"), OF(freed_twice, "invalid_free"),
    OF(freed_in_the_middle, "invalid_free"), OF(freed_on_the_stack, "invalid_free"),
    OF(freed_static, "invalid_free"), OF(compares_unwritten, "uninitialised"), OF(loads_and_compares_unwritten, "uninitialised"),
    OF(tests_unwritten, "uninitialised"),
    OF(unwritten_field, "uninitialised"), OF(unwritten_in_a_loop, "uninitialised"), OF(never_released, "leak"),
    OF(overwritten_pointer, "leak"), OF(lost_list, "leak"), OF(lost_copy, "leak"), OF(never_used, "unused"),
    OF(released_at_once, "temporary"), OF(static_array_too_far, "out_of_bounds"), OF(static_matrix_too_far, "out_of_bounds"),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc < 2)
            printf("%s %s\n", cases[i].name, cases[i].kind);
        else if (!strcmp(argv[1], cases[i].name))
            cases[i].run(argc == 2);
    return 0;
}
