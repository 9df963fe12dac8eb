// The input is a file's name, whose letters go through a table of lower case.
// command: taint
// input: /NOWHERE/AT/ALL
// expect: system_call_memory
// memtap misses: taint is not followed through addresses, so looking a value up in a table removes it
#include <fcntl.h>
#include <unistd.h>
#include "../hide.h"

static char lower[256];

int main(void)
{
    for (int i = 0; i < 256; i++)
        *HIDE(&lower[i]) = i >= 'A' && i <= 'Z' ? i + 32 : i;
    char line[64] = {0};
    long len = read(0, line, 15);
    for (int i = 0; i < len; i++)
        line[i] = *HIDE(&lower[(unsigned char)HIDE((char *)line)[i]]);
    int file = open(HIDE((char *)line), O_RDONLY); // here
    return file == 77;
}
