// Loads 16 bytes at offset 4 of a block of 18.
// command: errors
// expect: out_of_bounds
// memtap misses: the load begins inside the block and ends within the size that the allocator rounded the block up to
#include <emmintrin.h>
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

int main(void)
{
    char *block = HIDE(malloc(18));
    memset(block, 1, 18);
    __m128i *at = HIDE((__m128i *)(block + 4));
    __m128i value = _mm_loadu_si128(at); // here
    int low = HIDE(_mm_cvtsi128_si32(value));
    free(block);
    return low == 77;
}
