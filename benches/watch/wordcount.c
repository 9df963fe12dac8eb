// Counts words: each thread into a table of its own, merged at the end.
#include "team.h"

#define SLOTS 4096

static char *text;
static long bytes;
static struct table {
    char words[SLOTS][12];
    int counts[SLOTS];
} tables[MEMBERS];

static void count(int member)
{
    struct table *table = &tables[member];
    long at = first_of(member, bytes), end = first_of(member + 1, bytes);
    while (at > 0 && at < end && text[at - 1] != ' ')
        at++;
    while (at < end) {
        char word[12] = {0};
        unsigned hash = 5381;
        for (int i = 0; at < bytes && text[at] != ' '; at++, i++) {
            hash = hash * 33 + text[at];
            if (i < 11)
                word[i] = text[at];
        }
        at++;
        unsigned slot = hash % SLOTS;
        // A full table counts what it does not know with the last one looked at.
        for (int tries = 1; tries < SLOTS && table->counts[slot] && strcmp(table->words[slot], word); tries++)
            slot = (slot + 1) % SLOTS;
        if (!table->counts[slot]++)
            memcpy(table->words[slot], word, sizeof word);
    }
}

int main(int argc, char **argv)
{
    bytes = size_of_run(argc, argv, 400000);
    text = malloc(bytes);
    unsigned random = 1;
    if (!read_input(argc, argv, text, bytes))
        for (long i = 0; i < bytes; i++)
            text[i] = next_random(&random) % 4 ? 'a' + next_random(&random) % 3 : ' ';
    team(count);
    long words = 0;
    for (int m = 0; m < MEMBERS; m++)
        for (int i = 0; i < SLOTS; i++)
            words += tables[m].counts[i];
    printf("%ld words\n", words);
    return 0;
}
