// Stores to an address that was computed from garbage.
// command: errors
// expect: wild
#include <stdint.h>
#include "../hide.h"

int main(void)
{
    volatile char *nowhere = HIDE((volatile char *)(uintptr_t)0x123456789a0);
    *nowhere = 1; // here
    return 0;
}
