// A block is freed twice; the C library ends the program.
// stale: double <freed:@make> by again
// status: 134
// stderr: free(): double free detected in tcache 2
#include <stdlib.h>
#include "hidden.h"
__attribute__((noinline, noclone)) static char *make(void) { return malloc(40); }
__attribute__((noinline, noclone)) static void again(char *block) { free(HIDDEN(block)); __asm__ volatile(""); }
int main(void)
{
    char *block = make();
    free(block);
    again(HIDDEN(block));
    return 0;
}
