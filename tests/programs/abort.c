// abort() after accesses: the status is the signal's.
// lackey: no
// expect: counter size=4 stores=100
// status: 134
#include <stdlib.h>
#include <sys/resource.h>
#include "access.h"

int counter;

int main(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    REPEAT(100) STORE(counter, i_);
    abort();
}
