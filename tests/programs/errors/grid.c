// The same errors with elements of six types: as errors/unwritten.c, each case with its own kind. 40 bytes are all that the allocator has
// in such a block.
// build: -w -fno-builtin -O1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASE(name, type) static __attribute__((noinline, noclone)) void name##_##type(int wrong)
#define ALL_BYTES 40
#define COUNT(type) ((int)(ALL_BYTES / sizeof(type)))

typedef struct { long first, second, third, fourth, fifth; } five;

static volatile char seen;
static void *volatile kept;

static void *filled(void)
{
    char *block = malloc(ALL_BYTES);
    memset(block, 1, ALL_BYTES);
    return block;
}

#define LOAD(from) (seen = *(volatile char *)(from))
#define STORE(to) (*(volatile char *)(to) = 1)

#define CASES(type) \
    CASE(load_past, type) { type *b = filled(); LOAD(b + COUNT(type) - !wrong); free(b); } \
    CASE(store_past, type) { type *b = filled(); char *to = (char *)(b + COUNT(type)) - !wrong; seen = *(volatile char *)(to - wrong); *(volatile char *)to = wrong ? 0x31 : 1; free(b); } \
    CASE(load_before, type) { type *b = filled(); LOAD((char *)b - wrong); free(b); } \
    CASE(load_after_free, type) { type *b = filled(); if (wrong) free(b); LOAD((char *)(b + COUNT(type)) - sizeof(type) / 2 - 1); if (!wrong) free(b); } \
    CASE(store_after_free, type) { type *b = filled(); if (wrong) free(b); STORE((char *)(b + COUNT(type)) - 1); if (!wrong) free(b); } \
    CASE(copy_of_released, type) { type *b = filled(), *c = filled(); if (wrong) free(b); memcpy(c, b, ALL_BYTES); LOAD(c); free(c); if (!wrong) free(b); } \
    CASE(lost, type) { type *b = filled(); LOAD(b); kept = b; if (!wrong) free(b); } \
    CASE(never_touched, type) { type *b = malloc(ALL_BYTES); kept = b; if (!wrong) STORE(b); free(b); }

CASES(char) CASES(short) CASES(int) CASES(long) CASES(double) CASES(five)

static const struct {
    const char *name, *kind;
    void (*run)(int);
} cases[] = {
#define OF(name, type, kind) {#name "_" #type, kind, name##_##type},
#define ALL(type) \
    OF(load_past, type, "out_of_bounds") OF(store_past, type, "out_of_bounds") OF(load_before, type, "out_of_bounds") \
    OF(load_after_free, type, "use_after_free") OF(store_after_free, type, "use_after_free") \
    OF(copy_of_released, type, "use_after_free") OF(lost, type, "leak") OF(never_touched, type, "unused")
    ALL(char) ALL(short) ALL(int) ALL(long) ALL(double) ALL(five)
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc < 2)
            printf("%s %s\n", cases[i].name, cases[i].kind);
        else
            cases[i].run(!strcmp(argv[1], "wrong"));
    return 0;
}
