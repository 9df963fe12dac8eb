// A memcpy within an array on the stack.
// command: errors
// expect: overlap
#include <string.h>
#include "../hide.h"

static void shift(char *text)
{
    memcpy(HIDE(text + 4), HIDE(text), HIDE(40)); // here
}

int main(void)
{
    char text[64] = "a text on the stack";
    shift(HIDE((char *)text));
    SHOW(text);
    return 0;
}
