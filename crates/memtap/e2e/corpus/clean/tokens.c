// A line is cut in place by strtok_r, strsep and sscanf.
// command: errors
// record: --data
// expect: nothing
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *line = HIDE(strdup(HIDE((const char *)"one,two;three four=5, six"))), *place, *rest = line;
    int all = 0, number;
    char word[8];
    char *other = HIDE(strdup(line));
    for (char *token = strtok_r(other, ",;", &place); token; token = strtok_r(NULL, ",;", &place))
        all += strlen(HIDE(token));
    for (char *part; (part = strsep(&rest, " ")) != NULL;)
        if (sscanf(part, "%4[a-z]=%d", word, &number) == 2)
            all += number;
    free(other);
    free(line);
    return all == 77;
}
