// A checksum over a block takes words first and then the bytes that are left.
// command: errors
// expect: nothing
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

NOINLINE static uint64_t sum(const char *at, size_t len)
{
    uint64_t all = 0, word;
    for (; len >= 8; at += 8, len -= 8) {
        memcpy(&word, at, 8);
        all += word;
    }
    while (len--)
        all = all * 31 + (unsigned char)*at++;
    return all;
}

int main(void)
{
    uint64_t all = 0;
    for (size_t len = 0; len < 60; len++) {
        char *block = HIDE(malloc(len));
        memset(block, 3, len);
        all += sum(HIDE(block), len);
        free(block);
    }
    return all == 77;
}
