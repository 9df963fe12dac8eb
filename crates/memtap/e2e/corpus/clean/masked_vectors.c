// Vectors of which only the lanes within the block are loaded and stored.
// command: errors
// expect: nothing
// flags: -mavx2
#include <immintrin.h>
#include <stdlib.h>
#include "../hide.h"

NOINLINE __attribute__((target("avx2"))) static void add(int *numbers, int count)
{
    __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (int i = 0; i < count; i += 8) {
        __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(count - i), lanes);
        __m256i value = _mm256_maskload_epi32(numbers + i, mask);
        _mm256_maskstore_epi32(numbers + i, mask, _mm256_add_epi32(value, lanes));
    }
}

int main(void)
{
    if (!__builtin_cpu_supports("avx2"))
        return 0;
    for (int count = 1; count < 30; count++) {
        int *numbers = HIDE(calloc(count, sizeof *numbers));
        add(numbers, HIDE(count));
        free(numbers);
    }
    return 0;
}
