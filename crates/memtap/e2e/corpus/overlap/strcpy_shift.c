// A strcpy that moves a string to the front of its own buffer.
// command: errors
// expect: overlap
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *text = HIDE(malloc(100));
    strcpy(text, HIDE((const char *)"  a text with two blanks before it"));
    strcpy(HIDE(text), HIDE(text + 2)); // here
    SHOW(text);
    free(text);
    return 0;
}
