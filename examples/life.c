// Conway's game of life whose cells know a lot about themselves; with -DSPLIT, what each step asks for lies by itself.
#include <stdio.h>
#include <stdlib.h>

#define SIDE 256

#ifdef SPLIT
struct cell {
    unsigned char alive, next;
};
struct details {
    int age;
    long born;
    double temperature;
    char label[56];
};
static struct details *details;
#define DETAILS(at) (&details[at])
#else
struct cell {
    unsigned char alive, next;
    int age;
    long born;
    double temperature;
    char label[56];
    struct cell *friend;
};
#define DETAILS(at) (&cells[at])
#endif

static struct cell *cells;

static size_t place(int x, int y)
{
    return (size_t)((y + SIDE) % SIDE) * SIDE + (x + SIDE) % SIDE;
}

static int neighbours(int x, int y)
{
    int sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy)
                sum += cells[place(x + dx, y + dy)].alive;
    return sum;
}

static void step(long now)
{
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            int sum = neighbours(x, y);
            struct cell *cell = &cells[place(x, y)];
            cell->next = sum == 3 || (sum == 2 && cell->alive);
        }
    for (size_t at = 0; at < SIDE * SIDE; at++) {
        if (cells[at].next && !cells[at].alive)
            DETAILS(at)->born = now;
        cells[at].alive = cells[at].next;
    }
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 4;
    cells = calloc(SIDE * SIDE, sizeof *cells);
#ifdef SPLIT
    details = calloc(SIDE * SIDE, sizeof *details);
#endif
    for (size_t at = 0; at < SIDE * SIDE; at++) {
        cells[at].alive = at * 7919 % 11 < 4;
        DETAILS(at)->temperature = 20;
    }
    for (long now = 0; now < steps; now++)
        step(now);
    long alive = 0;
    for (size_t at = 0; at < SIDE * SIDE; at++)
        alive += cells[at].alive;
    printf("%ld cells are alive\n", alive);
    return 0;
}
