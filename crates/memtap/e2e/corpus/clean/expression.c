// A regular expression is compiled, used and released.
// command: errors
// record: --data
// expect: nothing
#include <regex.h>
#include "../hide.h"

int main(void)
{
    regex_t expression;
    regmatch_t matches[3];
    if (regcomp(&expression, "([a-z]+) ([0-9]+)", REG_EXTENDED) != 0)
        return 1;
    int result = regexec(&expression, HIDE((const char *)"a word and number 77 of it"), 3, matches, 0);
    regfree(&expression);
    return result;
}
