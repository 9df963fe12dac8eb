// Input is sorted, counted and printed, and decides nothing but that.
// stdin: the quick brown fox jumps over the lazy dog
// stdout: 9 words, 35 letters, first e
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int compare(const void *a, const void *b)
{
    return *(const char *)a - *(const char *)b;
}

int main(void)
{
    char text[128] = {0};
    int bytes = read(0, text, sizeof text - 1), words = 1, letters = 0;
    char *copy = malloc(bytes + 1), *more = realloc(strdup(text), 4096);
    memcpy(copy, text, bytes + 1);
    for (int i = 0; i < bytes; i++) {
        words += copy[i] == ' ';
        letters += isalpha((unsigned char)copy[i]) != 0;
        more[i] ^= copy[i];
    }
    qsort(copy, bytes, 1, compare);
    char *first = copy;
    while (!isalpha((unsigned char)*first) || *first < 'e')
        first++;
    printf("%d words, %d letters, first %c\n", words, letters, *first);
    free(copy);
    free(more);
    return 0;
}
