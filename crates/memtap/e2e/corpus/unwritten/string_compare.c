// A buffer is filled by strncpy and compared up to its zero: what is behind it does not matter.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *text = HIDE(malloc(64));
    strcpy(text, HIDE((const char *)"short"));
    int is_same = strcmp(HIDE(text), HIDE((const char *)"short")) == 0;
    size_t len = strlen(HIDE(text));
    free(text);
    return is_same + len == 77;
}
