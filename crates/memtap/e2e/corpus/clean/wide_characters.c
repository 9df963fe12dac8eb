// Wide strings, which functions of the C library read by whole vectors, at the ends of blocks.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <wchar.h>
#include "../hide.h"

int main(void)
{
    size_t all = 0;
    for (int len = 0; len < 40; len++) {
        wchar_t *text = HIDE(malloc((len + 1) * sizeof *text));
        for (int i = 0; i < len; i++)
            text[i] = L'a' + i % 26;
        text[len] = 0;
        text = HIDE(text);
        all += wcslen(text) + (wcschr(text, L'7') != NULL) + wmemcmp(text, text, len);
        free(text);
    }
    return all == 77;
}
