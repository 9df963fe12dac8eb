// Input is printed by formats of the program's own, some of which lie right behind it.
// build: -Wno-format-security
// stdin: seven of nine
// stdout: seven, seven, 7.
// stdout: seven, nine.
// stderr: seven
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    struct {
        char line[5], own[40];
    } text = {"", ", %s, %d.\n"};
    if (read(0, text.line, 5) != 5)
        return 1;
    printf("%.5s", text.line);
    printf(text.own, "seven", 7);
    strcpy(text.own, ", nine.\n");
    printf("%.*s", 5, text.line);
    printf(text.own);
    text.own[0] = 0;
    fprintf(stderr, "%.5s", text.line);
    fprintf(stderr, text.own);
    fputs("\n", stderr);
    char out[64];
    snprintf(out, sizeof out, "%s", text.line);
    return snprintf(out, sizeof out, text.own);
}
