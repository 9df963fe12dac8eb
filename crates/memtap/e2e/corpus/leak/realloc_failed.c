// The result of a realloc that fails overwrites the only pointer.
// command: errors
// record: --data
// expect: leak definite
#include <stdint.h>
#include <stdlib.h>
#include "../hide.h"

static char *volatile text;

int main(void)
{
    text = malloc(100); // here
    text = realloc(text, HIDE((size_t)PTRDIFF_MAX));
    return text != NULL;
}
