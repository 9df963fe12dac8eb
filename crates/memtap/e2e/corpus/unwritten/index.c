// An index that nobody wrote chooses an element.
// command: errors
// record: --flow full
// expect: uninitialised
#include <stdlib.h>
#include "../hide.h"

static int numbers[256];

int main(void)
{
    int *table = HIDE((int *)numbers);
    unsigned char *bytes = HIDE(malloc(64));
    bytes[0] = 1;
    bytes = HIDE(bytes);
    int value = HIDE(table[bytes[40]]); // here
    free(bytes);
    return value == 77;
}
