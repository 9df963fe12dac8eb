/* A game: each level loads meshes, textures and sounds, plays, and throws them away. What the player picks up stays until the end, and
 * was made while the level's own blocks were there. Arguments: levels, kilobytes of a level. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ASSETS = 4096, FRAMES = 200, PARTICLES = 64 };

static unsigned long state = 1;

static unsigned next(void)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(state >> 33);
}

static unsigned char *make(size_t bytes)
{
    unsigned char *block = malloc(bytes);
    if (!block)
        abort();
    return memset(block, (int)bytes, bytes);
}

int main(int argc, char **argv)
{
    unsigned levels = argc > 1 ? (unsigned)atoi(argv[1]) : 12;
    size_t level_bytes = (argc > 2 ? strtoul(argv[2], NULL, 0) : 6000) << 10;
    static unsigned char *assets[MOST_ASSETS], *items[MOST_ASSETS], *particles[PARTICLES];
    unsigned picked = 0;
    unsigned long sum = 0;
    for (unsigned level = 0; level < levels; level++) {
        unsigned count = 0;
        /* Levels are of different sizes; assets have 1 to 100 KiB. */
        size_t wanted = level_bytes / 2 + next() % level_bytes;
        for (size_t made = 0; made < wanted && count < MOST_ASSETS; count++) {
            size_t bytes = 1024 + next() % (next() % 4 ? 8u << 10 : 100u << 10);
            assets[count] = make(bytes);
            made += bytes;
        }
        for (unsigned frame = 0; frame < FRAMES; frame++) {
            unsigned char **particle = &particles[next() % PARTICLES];
            free(*particle);
            *particle = make(64 + next() % 512);
            sum += assets[next() % count][0];
            if (frame % 50 == 49 && picked < MOST_ASSETS)
                items[picked++] = make(100 + next() % 1000);
        }
        for (unsigned asset = 0; asset < count; asset++)
            free(assets[asset]);
        for (unsigned at = 0; at < PARTICLES; at++) {
            free(particles[at]);
            particles[at] = NULL;
        }
    }
    for (unsigned item = 0; item < picked; item++)
        free(items[item]);
    printf("sum %lu, %u items\n", sum, picked);
    return 0;
}
