// Wide block operations, in bytes.
// build: -fno-builtin
// lackey: no
// translate: no
// block: wmemcpy kind=copy bytes=64 count=1 dst=to src=from
// block: wmemmove kind=copy bytes=64 count=1 dst=to src=from
// block: wmemset kind=fill bytes=80 count=1 dst=to
// block: wcscpy kind=copy bytes=48 count=1 dst=to src=from
// block: wcsncpy kind=copy bytes=20 count=1 dst=to src=from
// block: wcslen kind=fetch bytes=48 count=1 src=from
// block: wcscmp kind=fetch bytes=48 count=1 src=from dst=to
// block: wmemcmp kind=fetch bytes=48 count=1 src=from dst=to
// stderr: 11 0 0
#include <stdio.h>
#include <wchar.h>

wchar_t from[64] = L"hello world", to[64];

int main(void)
{
    wmemmove(to, from, 16);
    wmemset(to, L'x', 20);
    wcscpy(to, from);
    wcsncpy(to, from, 5);
    wmemcpy(to, from, 16);
    fprintf(stderr, "%zu %d %d\n", wcslen(from), wcscmp(from, to), wmemcmp(from, to, 12));
    return 0;
}
