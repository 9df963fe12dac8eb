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

static long size_of_run(int argc, char **argv, long usual)
{
    return argc > 1 ? atol(argv[1]) : usual;
}
