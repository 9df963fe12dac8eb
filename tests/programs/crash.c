// A program that crashes is recorded up to the crash.
// lackey: no
// expect: counter size=4 stores=100
// status: 139
#include <sys/resource.h>
#include "access.h"

int counter;

int main(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    REPEAT(100) STORE(counter, i_);
    STORE(*(int *)8, 1);
    STORE(counter, 0);
    return 0;
}
