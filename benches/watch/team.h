// Fork and join: a function in as many threads as wanted, each with its number. What all programs here begin with.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS 4

struct member {
    void (*work)(int member);
    int number;
};

static void *run_member(void *argument)
{
    struct member *member = argument;
    member->work(member->number);
    return 0;
}

static void team(void (*work)(int member))
{
    pthread_t threads[MEMBERS];
    struct member members[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        members[i] = (struct member){work, i};
        if (pthread_create(&threads[i], 0, run_member, &members[i]))
            exit(1);
    }
    for (int i = 0; i < MEMBERS; i++)
        pthread_join(threads[i], 0);
}

/* The part of `all` that a member has. */
static inline long first_of(int member, long all)
{
    return all * member / MEMBERS;
}

static inline unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* The first argument, if it is there and not 0. */
static long size_of_run(int argc, char **argv, long usual)
{
    return argc > 1 && atol(argv[1]) ? atol(argv[1]) : usual;
}

/* Fills `into` from the file that the second argument names; zero where there is none, so that the program makes its own. */
static inline int read_input(int argc, char **argv, void *into, size_t bytes)
{
    FILE *file = argc > 2 ? fopen(argv[2], "r") : 0;
    if (argc <= 2)
        return 0;
    if (!file || fread(into, 1, bytes, file) != bytes) {
        fprintf(stderr, "%s: cannot read %zu bytes\n", argv[2], bytes);
        exit(1);
    }
    fclose(file);
    return 1;
}
