// Bytes that nobody wrote reach a decision by way of registers, calls and copies: as errors/cases.c, all of them of one kind, and to be
// recorded with --flow full. The functions at the end do what is right and looks as if it was not.
// build: -w -fno-builtin -O1
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CASE(name) static __attribute__((noinline, noclone)) void name(int wrong)
#define CALL static __attribute__((noinline, noclone))

struct pair {
    int first, second;
};
struct three {
    long first, second, third;
};
struct flags {
    unsigned one : 1, two : 3, rest : 12;
};

static volatile long seen;
static volatile int table[16] = {1};

/* Ten numbers, of which the third is written where that is right. */
CALL int *numbers(int wrong)
{
    int *all = malloc(40);
    for (int i = 0; i < 10; i++)
        if (i != 2 || !wrong)
            ((volatile int *)all)[i] = i;
    return all;
}

CALL void take_number(int number) { if (number > 3) seen = 1; }
CALL int third(int *all) { return ((volatile int *)all)[2]; }
CALL void take(struct three all) { if (all.second > 3) seen = 1; }

CASE(a_sum) { int *b = numbers(wrong); int sum = third(b) + 4; if (sum > 9) seen = 1; free(b); }
CASE(a_product) { int *b = numbers(wrong); if (third(b) * 3 > 9) seen = 1; free(b); }
CASE(a_difference_of_letters) { char *b = malloc(8); if (!wrong) b[1] = '4'; if (((volatile char *)b)[1] - '0' > 9) seen = 1; free(b); }
CASE(an_argument) { int *b = numbers(wrong); take_number(third(b)); free(b); }
CASE(a_copied_block) { int *b = numbers(wrong), *c = malloc(40); memcpy(c, b, 40); if (third(c) > 3) seen = 1; free(b); free(c); }
CASE(a_copy_on_the_stack) { int *b = numbers(wrong); volatile int local = third(b); seen = 2; if (local > 3) seen = 1; free(b); }
CASE(a_structure) { struct three *b = malloc(sizeof *b); b->first = b->third = 1; if (!wrong) b->second = 2; take(*b); free(b); }
CASE(an_index) { int *b = numbers(wrong); seen = table[(unsigned char)third(b) + 0 * wrong]; free(b); }
/* What is there is what the block before it left. */
CASE(a_pointer) { int **b = malloc(40); *(int *volatile *)(b + 3) = (int *)table; free(b); b = malloc(40); if (!wrong) *(int *volatile *)(b + 3) = (int *)table; seen = *(volatile int *)*(int *volatile *)(b + 3); free(b); }
CASE(a_bound_of_a_loop) { int *b = numbers(wrong); int most = third(b) % 5; for (int i = 0; i < most; i++) seen += i; free(b); }
CASE(a_switch) { int *b = numbers(wrong); switch (third(b)) { case 1: seen = 4; break; case 2: seen = 9; break; case 3: seen = 2; break; case 4: seen = 77; break; case 5: seen = 1; } free(b); }
CASE(a_length_of_write) { size_t *b = malloc(16); if (!wrong) *(volatile size_t *)b = 0; write(-1, "", *(volatile size_t *)b); free(b); }
CASE(bytes_that_write_takes) { char *b = malloc(50); if (!wrong) memset(b, 'x', 50); int to = open("/dev/null", O_WRONLY); write(to, b, 50); close(to); free(b); }
CASE(a_descriptor) { int *b = numbers(wrong); if (close(third(b) + 1000000)) seen = 1; free(b); }

/* Right, wrong or not. */
CASE(bits_of_one_byte) { struct flags *b = malloc(sizeof *b); b->one = 1; if (((volatile struct flags *)b)->one) seen = 1; free(b); }
CASE(a_string_of_many) { char *b = malloc(64); strcpy(b, "short"); if (strlen(b) == 5 && !strcmp(b, "short")) seen = 1; free(b); }
CASE(copies_alone) { int *b = numbers(1), *c = malloc(40); memcpy(c, b, 40); c[2] = 1; if (third(c) > 3) seen = 1; free(b); free(c); }
CASE(half_of_a_word) { struct pair *b = malloc(sizeof *b); b->first = 1; struct pair copy = *b; if (copy.first > 3) seen = 1; free(b); }
CASE(chosen_by_another) { struct pair *b = malloc(sizeof *b); b->first = 0; int value = ((volatile struct pair *)b)->second; int all = b->first ? value : 4; if (all > 3) seen = 1; free(b); }
CASE(zero_times) { int *b = numbers(1); int nothing = third(b); nothing ^= nothing; if (nothing) seen = 1; free(b); }
CASE(written_by_the_kernel) { int ends[2]; char *b = malloc(8); pipe(ends); write(ends[1], "abc", 3); read(ends[0], b, 3); if (b[1] == 'b') seen = 1; close(ends[0]); close(ends[1]); free(b); }
CASE(zeroed) { int *b = calloc(10, 4); if (third(b) > 3) seen = 1; free(b); }

static const struct {
    const char *name, *kind;
    void (*run)(int);
} cases[] = {
#define OF(name) {#name, "uninitialised", name}
#define RIGHT(name) {#name, "right", name}
    OF(a_sum), OF(a_product), OF(a_difference_of_letters), OF(an_argument), OF(a_copied_block), OF(a_copy_on_the_stack),
    OF(a_structure), OF(an_index), OF(a_pointer), OF(a_bound_of_a_loop), OF(a_switch), OF(a_length_of_write),
    OF(bytes_that_write_takes), OF(a_descriptor),
    RIGHT(bits_of_one_byte), RIGHT(a_string_of_many), RIGHT(copies_alone), RIGHT(half_of_a_word), RIGHT(chosen_by_another),
    RIGHT(zero_times), RIGHT(written_by_the_kernel), RIGHT(zeroed),
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
