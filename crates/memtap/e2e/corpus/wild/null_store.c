// Stores through null.
// command: errors
// expect: wild
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    int *nowhere = HIDE((int *)NULL);
    *nowhere = 1; // here
    return 0;
}
