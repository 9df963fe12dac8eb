// A strcpy of strings of many lengths into blocks with just enough room.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    const char *text = HIDE((const char *)"a text that is longer than a vector of bytes, and longer than two of them as well");
    for (const char *from = text; *from; from++) {
        char *block = HIDE(malloc(strlen(from) + 1));
        strcpy(block, from);
        SHOW(block);
        free(block);
    }
    return 0;
}
