// Wide strings that end with their blocks are compared.
// command: errors
// expect: nothing
#include <stdlib.h>
#include <wchar.h>
#include "../hide.h"

int main(void)
{
    int all = 0;
    for (int len = 0; len < 40; len++) {
        wchar_t *text = HIDE(malloc((len + 1) * sizeof *text));
        for (int i = 0; i < len; i++)
            text[i] = L'a' + i % 26;
        text[len] = 0;
        text = HIDE(text);
        wchar_t *copy = HIDE(wcsdup(text));
        all += wcscmp(copy, text) + wcscmp(text, L"abc");
        free(copy);
        free(text);
    }
    return all == 77;
}
