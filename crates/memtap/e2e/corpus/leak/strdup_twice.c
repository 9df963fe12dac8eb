// A name is set twice, and the first one is not released.
// command: errors
// record: --data
// expect: leak definite
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

static char *volatile name;

NOINLINE static void set_name(const char *text)
{
    name = strdup(text); // here
}

int main(void)
{
    set_name(HIDE((const char *)"the first name"));
    set_name(HIDE((const char *)"another name, of another length"));
    free(name);
    name = NULL;
    return 0;
}
