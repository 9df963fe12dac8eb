// Linear regression: five sums for each thread, side by side in one array.
#include "team.h"

static struct { signed char x, y; } *point;
static long points;
static struct { long x, y, xx, yy, xy; } sums[MEMBERS];

static void add(int member)
{
    for (long i = first_of(member, points); i < first_of(member + 1, points); i++) {
        long x = point[i].x, y = point[i].y;
        sums[member].x += x, sums[member].y += y;
        sums[member].xx += x * x, sums[member].yy += y * y, sums[member].xy += x * y;
    }
}

int main(int argc, char **argv)
{
    points = size_of_run(argc, argv, 200000);
    point = malloc(points * sizeof *point);
    unsigned random = 6;
    if (!read_input(argc, argv, point, points * sizeof *point))
        for (long i = 0; i < points; i++)
            point[i].x = next_random(&random), point[i].y = point[i].x / 2 + next_random(&random) % 8;
    team(add);
    double n = points, x = 0, y = 0, xx = 0, xy = 0;
    for (int m = 0; m < MEMBERS; m++)
        x += sums[m].x, y += sums[m].y, xx += sums[m].xx, xy += sums[m].xy;
    printf("%.2f\n", (n * xy - x * y) / (n * xx - x * x));
    return 0;
}
