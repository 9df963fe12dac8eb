// Functions that look for the end of a string by whole vectors, where the string ends with its block.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    size_t all = 0;
    for (int len = 0; len < 80; len += 3) {
        char *block = HIDE(malloc(len + 1));
        memset(block, 'x', HIDE(len));
        block[len] = 0;
        block = HIDE(block);
        all += strlen(block) + strnlen(block, len + 1) + (strchr(block, 'y') != NULL) + (strrchr(block, 'x') != NULL);
        all += strcspn(block, "yz") + (strstr(block, "xy") != NULL) + (memchr(block, 'y', len) != NULL);
        char *copy = HIDE(strdup(block));
        all += strcmp(copy, block) + strncmp(copy, block, 90) + strcasecmp(copy, block);
        free(copy);
        free(block);
    }
    return all == 77;
}
