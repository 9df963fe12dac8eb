// Stores into a string constant.
// command: errors
// expect: wild
// memtap misses: an access that faults is none, and is not in the trace
#include "../hide.h"

int main(void)
{
    char *text = HIDE((char *)"constant");
    text[0] = 'K'; // here
    return 0;
}
