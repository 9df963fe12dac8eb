// Looks for four keys in a long text.
#include "team.h"

static const char *const keys[] = {"abacab", "bbbaaa", "cabbac", "aabbcc"};
static char *text;
static long bytes;
static long found[MEMBERS][8];

static void look(int member)
{
    for (long i = first_of(member, bytes); i < first_of(member + 1, bytes); i++)
        for (int key = 0; key < 4; key++) {
            int at = 0;
            while (keys[key][at] && i + at < bytes && text[i + at] == keys[key][at])
                at++;
            if (!keys[key][at])
                found[member][key]++;
        }
}

int main(int argc, char **argv)
{
    bytes = size_of_run(argc, argv, 150000);
    text = malloc(bytes);
    unsigned random = 4;
    if (!read_input(argc, argv, text, bytes))
        for (long i = 0; i < bytes; i++)
            text[i] = 'a' + next_random(&random) % 3;
    team(look);
    long all = 0;
    for (int m = 0; m < MEMBERS; m++)
        for (int key = 0; key < 4; key++)
            all += found[m][key];
    printf("%ld\n", all);
    return 0;
}
