// A struct with a flexible array member: its room is counted without the struct's own members.
// command: errors
// expect: out_of_bounds
#include <stdlib.h>
#include "../hide.h"

struct packet {
    long count;
    long values[];
};

int main(void)
{
    long count = HIDE(6l);
    struct packet *packet = HIDE(malloc(count * sizeof packet->values[0]));
    packet->count = count;
    for (long i = 0; i < count; i++)
        *HIDE(&packet->values[i]) = i; // here
    SHOW(packet);
    free(packet);
    return 0;
}
