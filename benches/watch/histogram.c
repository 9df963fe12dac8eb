// Histogram of three colours: bins for each thread.
#include "team.h"

static unsigned char *pixels;
static long count;
static int bins[MEMBERS][3][256];

static void fill(int member)
{
    for (long i = first_of(member, count); i < first_of(member + 1, count); i++)
        for (int colour = 0; colour < 3; colour++)
            bins[member][colour][pixels[3 * i + colour]]++;
}

int main(int argc, char **argv)
{
    count = size_of_run(argc, argv, 150000);
    pixels = malloc(3 * count);
    unsigned random = 3;
    if (!read_input(argc, argv, pixels, 3 * count))
        for (long i = 0; i < 3 * count; i++)
            pixels[i] = next_random(&random);
    team(fill);
    int most = 0;
    for (int value = 0; value < 256; value++) {
        int all = 0;
        for (int m = 0; m < MEMBERS; m++)
            all += bins[m][0][value];
        most = all > most ? all : most;
    }
    printf("%d\n", most);
    return 0;
}
