// As errors/grid.c, with C++'s operators.
// build: -w -fno-builtin -O1
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CASE(name, type) static __attribute__((noinline, noclone)) void name##_##type(bool wrong)

struct five {
    long first, second, third, fourth, fifth;
};

static volatile char seen;
static void *volatile kept;
static const int ALL_BYTES = 40;

/* The compiler leaves away what it can see the whole life of. */
template <typename T> static T *made()
{
    T *block = new T[ALL_BYTES / sizeof(T)];
    std::memset(block, 1, ALL_BYTES);
    kept = block;
    return static_cast<T *>(kept);
}

#define LOAD(from) (seen = *(const volatile char *)(from))
#define END(b) ((char *)(b) + ALL_BYTES)

#define CASES(type) \
    CASE(load_past, type) { type *b = made<type>(); LOAD(END(b) - !wrong); delete[] b; } \
    CASE(load_before, type) { type *b = made<type>(); LOAD((char *)b - wrong); delete[] b; } \
    CASE(load_after_delete, type) { type *b = made<type>(); if (wrong) delete[] b; LOAD(END(b) - 3); if (!wrong) delete[] b; } \
    CASE(delete_of_an_array, type) { type *b = made<type>(); LOAD(b); if (wrong) delete b; else delete[] b; } \
    CASE(free_of_an_array, type) { type *b = made<type>(); LOAD(b); if (wrong) std::free(b); else delete[] b; } \
    CASE(lost, type) { type *b = made<type>(); LOAD(b); if (!wrong) delete[] b; } \
    CASE(element_of_a_vector_that_grew, type) { std::vector<type> all(ALL_BYTES / sizeof(type)); const char *last = END(all.data()) - 1; if (wrong) all.resize(500); LOAD(last); }

CASES(char) CASES(short) CASES(int) CASES(long) CASES(double) CASES(five)

static const struct {
    const char *name, *kind;
    void (*run)(bool);
} cases[] = {
#define OF(name, type, kind) {#name "_" #type, kind, name##_##type},
#define ALL(type) \
    OF(load_past, type, "out_of_bounds") OF(load_before, type, "out_of_bounds") OF(load_after_delete, type, "use_after_free") \
    OF(delete_of_an_array, type, "mismatched_free") OF(free_of_an_array, type, "mismatched_free") OF(lost, type, "leak") \
    OF(element_of_a_vector_that_grew, type, "use_after_free")
    ALL(char) ALL(short) ALL(int) ALL(long) ALL(double) ALL(five)
};

int main(int argc, char **argv)
{
    for (const auto &one : cases)
        if (argc < 2)
            std::printf("%s %s\n", one.name, one.kind);
        else
            one.run(!std::strcmp(argv[1], "wrong"));
}
