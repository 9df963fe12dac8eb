// Blocks are filled, copied and searched by the processor's string instructions.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

int main(void)
{
    char *from = HIDE(malloc(61)), *to = HIDE(malloc(61));
    void *at = from;
    long count = 61;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(count) : "a"(3) : "memory");
    void *source = from, *target = to;
    count = 61;
    __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
    at = to;
    count = 61;
    __asm__ volatile("repne scasb" : "+D"(at), "+c"(count) : "a"(7) : "memory");
    free(from);
    free(to);
    return count == 77;
}
