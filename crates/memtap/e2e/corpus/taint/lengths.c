// What was read is written out again, as long as it is.
// command: taint
// input: 0123456789
// expect: nothing
#include <unistd.h>
#include "../hide.h"

int main(void)
{
    char line[64] = {0};
    long len = read(0, line, 60);
    for (int i = 0; i < len; i++)
        line[i] ^= 1;
    return write(1, HIDE((char *)line), len) == 77;
}
