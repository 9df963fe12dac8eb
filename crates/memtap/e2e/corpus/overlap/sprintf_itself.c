// A sprintf whose argument is its own buffer.
// command: errors
// expect: overlap
// memtap misses: what sprintf loads from its own buffer is not checked
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *text = HIDE(malloc(100));
    strcpy(text, HIDE((const char *)"text"));
    sprintf(HIDE(text), HIDE((const char *)"%s and %d"), HIDE(text), 3); // here
    SHOW(text);
    free(text);
    return 0;
}
