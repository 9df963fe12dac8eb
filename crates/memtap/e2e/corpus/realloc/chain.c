// A buffer that doubles until it has room for all.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    size_t room = 4, len = 0;
    char *text = HIDE(malloc(room));
    for (int i = 0; i < HIDE(1000); i++) {
        if (len == room)
            text = HIDE(realloc(text, room *= 2));
        text[len++] = i;
    }
    text = HIDE(realloc(text, len));
    char last = HIDE(text[len - 1]);
    free(text);
    return last == 77;
}
