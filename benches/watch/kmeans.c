// K-means: assignment in parallel, sums for each thread, new centres in main.
#include "team.h"

#define CENTRES 8
#define DIMENSIONS 4

static long points;
static float (*point)[DIMENSIONS];
static int *owner;
static float centre[CENTRES][DIMENSIONS];
static struct sums {
    float sum[CENTRES][DIMENSIONS];
    int count[CENTRES];
} sums[MEMBERS];

static void assign(int member)
{
    struct sums *own = &sums[member];
    memset(own, 0, sizeof *own);
    for (long i = first_of(member, points); i < first_of(member + 1, points); i++) {
        int best = 0;
        float least = 1e30f;
        for (int c = 0; c < CENTRES; c++) {
            float distance = 0;
            for (int d = 0; d < DIMENSIONS; d++) {
                float way = point[i][d] - centre[c][d];
                distance += way * way;
            }
            if (distance < least)
                least = distance, best = c;
        }
        owner[i] = best;
        own->count[best]++;
        for (int d = 0; d < DIMENSIONS; d++)
            own->sum[best][d] += point[i][d];
    }
}

int main(int argc, char **argv)
{
    points = size_of_run(argc, argv, 8000);
    point = malloc(points * sizeof *point);
    owner = calloc(points, sizeof *owner);
    unsigned random = 2;
    unsigned char *bytes = malloc(points * DIMENSIONS);
    int given = read_input(argc, argv, bytes, points * DIMENSIONS);
    for (long i = 0; i < points; i++)
        for (int d = 0; d < DIMENSIONS; d++)
            point[i][d] = given ? bytes[i * DIMENSIONS + d] : next_random(&random) % 1000;
    free(bytes);
    memcpy(centre, point, sizeof centre);
    for (int round = 0; round < 5; round++) {
        team(assign);
        for (int c = 0; c < CENTRES; c++)
            for (int d = 0; d < DIMENSIONS; d++) {
                float sum = 0, count = 0;
                for (int m = 0; m < MEMBERS; m++)
                    sum += sums[m].sum[c][d], count += sums[m].count[c];
                if (count > 0)
                    centre[c][d] = sum / count;
            }
    }
    printf("%.0f\n", centre[0][0]);
    return 0;
}
