// Accesses out of the bounds of arrays on the stack, in structures and in static ones: as errors/unwritten.c, with all runs in one. The
// functions at the end do what is right and looks as if it was not.
// build: -w -fno-builtin -O1 -fno-tree-vectorize -fno-unroll-loops
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASE(name) static __attribute__((noinline, noclone)) void name(int wrong)

struct record {
    int id;
    char name[12];
    short values[6];
    long last;
};

static volatile long seen;
static volatile int zero;
static struct record fixed;
static long numbers[8], after[8];
static struct {
    long first;
    int inner[4][2];
    long more;
} nested;

CASE(local_array_too_far) { volatile int a[6] = {0}; volatile long wall[4] = {0}; for (int i = zero; i < 6 + wrong; i++) seen += a[i]; seen += wall[zero]; }
CASE(local_array_from_before) { volatile long wall[4] = {0}; volatile int a[6] = {0}; for (int i = zero - wrong; i < 6; i++) seen += a[i]; seen += wall[zero]; }
CASE(local_array_stored_too_far) { volatile long wall[8] = {0}; volatile char a[32] = {0}; volatile long more[8] = {0}; for (int i = zero; i < 32 + wrong; i++) a[i] = 0; seen += wall[zero] + more[zero]; }
CASE(local_words_too_far) { volatile long a[5] = {0}; volatile long wall[8] = {0}; for (int i = zero; i < 5 + wrong; i++) seen += a[i]; seen += wall[zero]; }
CASE(member_of_a_block) { struct record *r = calloc(1, sizeof *r); for (int i = zero; i < 12 + wrong; i++) seen += ((volatile struct record *)r)->name[i]; free(r); }
CASE(stored_member_of_a_block) { struct record *r = calloc(1, sizeof *r); for (int i = zero; i < 12 + wrong; i++) ((volatile struct record *)r)->name[i] = 1; free(r); }
CASE(member_of_a_static) { for (int i = zero; i < 12 + wrong; i++) seen += ((volatile struct record *)&fixed)->name[i]; }
CASE(static_numbers) { for (int i = zero; i < 8 + wrong; i++) seen += ((volatile long *)numbers)[i]; }

/* Right, wrong or not. */
CASE(counted_from_elsewhere) { volatile int a[20] = {0}; for (int i = zero + 10; i < 20; i++) seen += a[i - 10] + a[i]; }
CASE(two_in_one_place) { { volatile int a[4] = {0}; for (int i = zero; i < 4; i++) seen += a[i]; } { volatile int b[40] = {0}; for (int i = zero; i < 40; i++) seen += b[i]; } }
CASE(of_many_records) { struct record *r = calloc(5, sizeof *r); for (int i = zero; i < 5; i++) for (int j = zero; j < 12; j++) seen += ((volatile struct record *)r)[i].name[j]; free(r); }
CASE(all_of_its_bytes) { struct record *r = calloc(1, sizeof *r); for (size_t i = zero; i < sizeof *r; i++) seen += ((volatile char *)r)[i]; free(r); }
CASE(of_two_dimensions) { for (int i = zero; i < 8; i++) seen += ((volatile int *)nested.inner)[i]; for (int i = zero; i < 4; i++) seen += ((volatile int (*)[2])nested.inner)[i][1]; }

static __attribute__((noinline)) long again(int depth) { volatile long a[4] = {depth}; for (int i = zero; i < 4; i++) seen += a[i]; return depth ? again(depth - 1) + a[zero] : 0; }
CASE(many_frames) { seen += again(5); seen += again(2); }

static const struct {
    const char *name, *kind;
    void (*run)(int);
} cases[] = {
#define OF(name) {#name, "out_of_bounds", name}
#define RIGHT(name) {#name, "right", name}
    OF(local_array_too_far), OF(local_array_from_before), OF(local_array_stored_too_far), OF(local_words_too_far),
    OF(member_of_a_block), OF(stored_member_of_a_block), OF(member_of_a_static), OF(static_numbers),
    RIGHT(counted_from_elsewhere), RIGHT(two_in_one_place), RIGHT(of_many_records), RIGHT(all_of_its_bytes),
    RIGHT(of_two_dimensions), RIGHT(many_frames),
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
