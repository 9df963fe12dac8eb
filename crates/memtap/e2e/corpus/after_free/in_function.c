// A function that is handed a released block reads it.
// command: errors
// expect: use_after_free
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

NOINLINE static int first(const char *text)
{
    return *HIDE(text); // here
}

int main(void)
{
    char *text = HIDE(strdup(HIDE((const char *)"a text of some length")));
    free(text);
    return first(HIDE(text)) == 77;
}
