// A strchr in a released string.
// command: errors
// expect: use_after_free
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *text = HIDE(malloc(200));
    memset(text, 'x', HIDE(199));
    text[199] = 0;
    free(text);
    char *found = strchr(HIDE(text + 64), HIDE('y')); // here
    return found == NULL;
}
