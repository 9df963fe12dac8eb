// Stores 16 bytes at offset 16 of a block of 24.
// command: errors
// expect: out_of_bounds
#include <emmintrin.h>
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(24));
    __m128i *at = HIDE((__m128i *)(block + 16));
    _mm_storeu_si128(at, _mm_set1_epi8(3)); // here
    SHOW(block);
    _Exit(0);
}
