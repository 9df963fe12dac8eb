// memtap_start, memtap_stop and memtap_mark: only what lies between is recorded.
// lackey: no
// expect: inside size=4 loads=20 stores=21
// expect: outside size=4
// marker: first=1 second=1
// stdout: 20 20
#include <stdio.h>
#include "access.h"
#include "memtap.h"

int inside, outside;

int main(void)
{
    memtap_stop();
    REPEAT(10) STORE(outside, LOAD(outside) + 1);
    memtap_start();
    memtap_mark("first");
    REPEAT(10) STORE(inside, LOAD(inside) + 1);
    memtap_stop();
    REPEAT(10) STORE(outside, LOAD(outside) + 1);
    memtap_start();
    memtap_mark("second");
    STORE(inside, 10);
    REPEAT(10) STORE(inside, LOAD(inside) + 1);
    memtap_stop();
    printf("%d %d\n", inside, outside);
    return 0;
}
