// A block that is read after it was freed is named <freed:...>, a mapping after munmap is a crash.
// expect: <malloc@make> size=4 stores=10
// expect: <freed:@make> size=4 loads=3
// alloc: malloc=1 frees=1
// status: 0
#include <stdlib.h>
#include "access.h"

__attribute__((noinline, noclone)) static int *make(void) { return malloc(4096); }

int main(void)
{
    int *block = make();
    REPEAT(10) STORE(block[i_ + 100], i_);
    free(block);
    __asm__ volatile("" : "+r"(block));
    int sum = 0;
    // Beyond the words the allocator itself uses.
    REPEAT(3) sum += LOAD(block[i_ + 100]);
    return sum != 3;
}
