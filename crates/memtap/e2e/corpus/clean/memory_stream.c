// A stream into memory, whose buffer the program releases.
// command: errors
// record: --data
// expect: nothing
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *text;
    size_t len;
    FILE *stream = open_memstream(&text, &len);
    for (int i = 0; i < 200; i++)
        fprintf(stream, "%d, ", i);
    fclose(stream);
    int fits = strlen(HIDE(text)) == len;
    char *printed = NULL;
    if (asprintf(&printed, "%zu bytes", len) < 0)
        return 1;
    free(text);
    free(printed);
    return !fits;
}
