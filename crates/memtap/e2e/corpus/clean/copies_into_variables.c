// Copies that end where their variable does: arrays beside each other, structures with arrays, variables of blocks that share their place,
// the second of two in a row, and a rest of a block of the stack that has no name.
// command: errors
// expect: nothing
// flags: -U_FORTIFY_SOURCE
#include <alloca.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "../hide.h"

struct line {
    char head[8], text[24];
    int tail[4];
};

static char one[16], other[16];
static struct line lines[4];

NOINLINE static int fill(const char *text, int len)
{
    char first[16], second[16];
    struct line line, copy[3];
    memset(HIDE((char *)first), 'a', len);
    memcpy(HIDE((char *)second), text, len);
    strcpy(HIDE((char *)first), text);
    memset(HIDE(&line), 0, sizeof line);
    strncpy(HIDE((char *)line.head), text, 8);
    // All of a structure by the address of its first member.
    memcpy(HIDE((char *)copy[0].head), HIDE(&line), sizeof line);
    memmove(HIDE(&copy[1]), HIDE(&copy[0]), 2 * sizeof line - sizeof line);
    memcpy(HIDE(&copy[0]), HIDE(&lines[1]), 3 * sizeof line);
    char *rest = alloca(HIDE(100));
    memset(HIDE(rest), 'b', 100);
    return HIDE((char *)second)[1] + HIDE(&line)->tail[1] + HIDE(&copy[2])->tail[2] + HIDE(rest)[7] + HIDE((char *)first)[2];
}

NOINLINE static int print(const char *text, int from)
{
    char first[16], second[16];
    int count = 0, other = 0;
    sprintf(HIDE((char *)first), "%s%n", text, HIDE(&count));
    snprintf(HIDE((char *)second), 16, "%s and %d more", text, 12345);
    if (read(from, HIDE((char *)second), 16) != 16 || !fgets(HIDE((char *)first), 16, stdin))
        return 1;
    if (sscanf(HIDE((char *)second), "%d %15s", HIDE(&other), HIDE((char *)first)) < 0)
        return 2;
    return count + other + HIDE((char *)first)[2] + HIDE((char *)second)[3];
}

NOINLINE static int blocks(int len)
{
    int sum = 0;
    if (len) {
        char little[8];
        memset(HIDE((char *)little), 1, 8);
        sum += HIDE((char *)little)[3];
    }
    if (len) {
        char large[200];
        memset(HIDE((char *)large), 2, 200);
        sum += HIDE((char *)large)[100];
    }
    for (int i = 0; i < 3; i++) {
        long middle[9];
        memset(HIDE((long *)middle), i, sizeof middle);
        sum += HIDE((long *)middle)[8];
    }
    return sum;
}

int main(void)
{
    const char *text = HIDE((const char *)"fifteen letters");
    strcpy(HIDE((char *)one), text);
    strcpy(HIDE((char *)other), text);
    memset(HIDE((struct line *)lines), 3, sizeof lines);
    strcat(HIDE((char *)one) + 8, "");
    memcpy(HIDE(&lines[2]), HIDE(&lines[0]), 2 * sizeof lines[0]);
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], text, 16) != 16 || write(ends[1], "a longer line than fits\n", 24) != 24)
        return 1;
    dup2(ends[0], 0);
    printf("%d\n", print(text, ends[0]) + fill(text, 16) + blocks(HIDE(8)) + HIDE((char *)other)[3]);
    return 0;
}
