// Lines are read by getline, which grows its buffer.
// command: errors
// record: --data
// expect: nothing
#include <stdio.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    if (!file)
        return 1;
    char *line = NULL;
    size_t room = 0;
    long len, all = 0;
    while ((len = getline(&line, &room, file)) > 0)
        all += HIDE(line)[len - 1];
    free(line);
    fclose(file);
    return all == 77;
}
