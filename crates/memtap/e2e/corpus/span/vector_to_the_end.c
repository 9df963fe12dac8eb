// Loads and stores 16 bytes that end where the block ends.
// command: errors
// expect: nothing
#include <emmintrin.h>
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(37));
    memset(block, 1, 37);
    __m128i *at = HIDE((__m128i *)(block + 21));
    _mm_storeu_si128(at, _mm_add_epi8(_mm_loadu_si128(at), _mm_set1_epi8(1)));
    SHOW(block);
    free(block);
    return 0;
}
