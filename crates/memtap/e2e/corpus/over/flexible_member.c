// A struct with a flexible array member, of which every element is used.
// command: errors
// expect: nothing
#include <stdlib.h>
#include "../hide.h"

struct packet {
    unsigned count;
    short values[];
};

int main(void)
{
    unsigned count = HIDE(21u);
    struct packet *packet = HIDE(malloc(sizeof *packet + count * sizeof packet->values[0]));
    packet->count = count;
    for (unsigned i = 0; i < count; i++)
        *HIDE(&packet->values[i]) = i;
    SHOW(packet);
    free(packet);
    return 0;
}
