// Numbers that were written by bytes, and a mask of bytes that were not, of which only the written part decides.
// command: errors
// record: --flow full
// expect: nothing
#include <stdint.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    uint32_t *words = HIDE(malloc(16));
    unsigned char *bytes = HIDE((unsigned char *)words);
    for (int i = 0; i < 6; i++)
        *HIDE(&bytes[i]) = 7 * i;
    words = HIDE(words);
    int all = 0;
    if (words[0] > 100)
        all += HIDE(1);
    uint32_t half = HIDE(words[1]) & 0xffff;
    if (half > 100)
        all += HIDE(1);
    free(bytes);
    return all == 77;
}
