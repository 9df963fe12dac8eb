// Not a use after free: string functions read whole vectors, past the ends of strings and before their beginnings.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <wchar.h>
#include "hidden.h"
static volatile size_t sum;
static char copy[4096];
__attribute__((noinline, noclone)) static void scan(char *text, char *other, size_t len)
{
    text = HIDDEN(text);
    sum += strlen(text) + strnlen(text, len + 100);
    sum += (size_t)strchr(text, 'q') + (size_t)strrchr(text, 'q') + (size_t)strchrnul(text, 'q');
    sum += (size_t)memchr(text, 'q', len) + (size_t)memrchr(text, 'q', len) + (size_t)rawmemchr(text, 0);
    sum += strcmp(text, other) + strncmp(text, other, len) + strcasecmp(text, other) + memcmp(text, other, len);
    sum += strspn(text, "abc") + strcspn(text, "xyz") + (size_t)strstr(text, "zz") + (size_t)strpbrk(text, "q");
    strcpy(copy, text);
    strcat(copy, text);
    strncpy(copy, text, len);
    stpcpy(copy, text);
    memcpy(copy, text, len + 1);
}
__attribute__((noinline, noclone)) static void scan_wide(wchar_t *text, size_t len)
{
    text = HIDDEN(text);
    sum += wcslen(text) + (size_t)wcschr(text, L'q') + (size_t)wmemchr(text, L'q', len) + wcscmp(text, text);
}
int main(void)
{
    enum { ROUNDS = 300 };
    for (size_t len = 0; len < ROUNDS; len++) {
        // Each has freed blocks before and after it.
        char *blocks[9];
        for (int i = 0; i < 9; i++)
            blocks[i] = malloc(len + 1);
        for (int i = 0; i < 9; i++)
            memset(blocks[i], 'a', len), blocks[i][len] = 0;
        for (int i = 0; i < 9; i += 2)
            free(blocks[i]);
        for (size_t from = 0; from < len || from == 0; from += len / 5 + 1)
            scan(blocks[3] + from, blocks[7] + from, len - from);
        for (int i = 1; i < 9; i += 2)
            free(blocks[i]);
        wchar_t *wide[3];
        for (int i = 0; i < 3; i++) {
            wide[i] = malloc((len / 4 + 1) * sizeof(wchar_t));
            wmemset(wide[i], L'a', len / 4), wide[i][len / 4] = 0;
        }
        free(wide[0]), free(wide[2]);
        scan_wide(wide[1], len / 4);
        free(wide[1]);
    }
    return 0;
}
