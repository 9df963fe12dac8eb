// Copies to right before and right behind their sources, of all short lengths, up to the ends of pages; and one to itself.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

#define PAGE 4096

static char pages[4 * PAGE] __attribute__((aligned(PAGE)));

int main(void)
{
    for (int length = 1; length < 140; length++) {
        for (int before = 0; before < 140; before += 3) {
            char *source = HIDE((char *)pages + 2 * PAGE - before);
            memset(source, 'a', length);
            source[length] = 0;
            strcpy(HIDE(source + length + 1), source);
            strcpy(HIDE(source - length - 1), source);
            memcpy(HIDE(source + length), source, HIDE(length));
            memcpy(HIDE(source - length), source, HIDE(length));
            memcpy(HIDE(source), source, HIDE(length));
        }
    }
    SHOW(pages);
    return 0;
}
