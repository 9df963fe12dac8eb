// A buffer that grows by mremap.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *text = NULL;
    for (size_t room = 100000; room < 3000000; room += room / 2) {
        text = HIDE(realloc(text, room));
        text[0] = text[room / 2] = text[room - 1] = 1;
        SHOW(text);
    }
    free(text);
    return 0;
}
