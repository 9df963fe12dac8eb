// Fields that the compiler reads and writes by one instruction, and one that only the kernel writes.
// stdout: 2000.0 1000.0 0 200.0
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OBJECTS 10
#define ROUNDS 100

struct point {
    double x, y, z, w;
    int kind;
    int unused;
    char label[24];
};

struct total {
    double up, down;
};

static struct total total;

__attribute__((noinline)) void move(struct point *point) {
    point->x += 1.0;
    point->y += 2.0;
}

__attribute__((noinline)) double depth(const struct point *point) {
    return point->z + point->w;
}

__attribute__((noinline)) void add(void) {
    total.up += 1.0;
    total.down += 2.0;
}

int main(void) {
    struct point *points[OBJECTS];
    double depths = 0;
    int zeros = open("/dev/zero", O_RDONLY);
    for (int i = 0; i < OBJECTS; i++) {
        points[i] = calloc(1, sizeof *points[i]);
        points[i]->kind = i;
        if (read(zeros, points[i]->label, sizeof points[i]->label) != sizeof points[i]->label) {
            return 1;
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OBJECTS; i++) {
            move(points[i]);
            depths += depth(points[i]);
        }
        add();
    }
    printf("%.1f %.1f %.0f %.1f\n", 20.0 * ROUNDS, 10.0 * ROUNDS, depths, total.down);
    return 0;
}
