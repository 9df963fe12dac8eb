// A struct whose last member is an array of one element that stands for many, as C had it before flexible members.
// command: errors
// expect: nothing
// flags: -fno-sanitize=bounds
#include <stdlib.h>
#include <string.h>
#include "../hide.h"

struct name {
    int len;
    char text[1];
};

int main(void)
{
    const char *word = HIDE((const char *)"a name that is longer than one");
    int len = strlen(word);
    struct name *name = HIDE(malloc(sizeof *name + len));
    name->len = len;
    for (int i = 0; i <= len; i++)
        name->text[HIDE(i)] = word[i];
    int last = HIDE(name->text[len / 2]);
    free(name);
    return last == 77;
}
