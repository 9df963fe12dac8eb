// Stores into a string constant.
// command: errors
// expect: wild
#include "../hide.h"

int main(void)
{
    char *text = HIDE((char *)"constant");
    text[0] = 'K'; // here
    return 0;
}
