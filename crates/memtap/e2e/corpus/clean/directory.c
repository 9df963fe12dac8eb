// A directory is read and sorted by scandir.
// command: errors
// record: --data
// expect: nothing
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    struct dirent **names;
    int count = scandir("/usr", &names, NULL, alphasort);
    size_t all = 0;
    for (int i = 0; i < count; i++) {
        all += strlen(names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return all == 77;
}
