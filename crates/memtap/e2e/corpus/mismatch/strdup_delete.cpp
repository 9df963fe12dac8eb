// Deletes a string of strdup.
// command: errors
// expect: mismatched_free
#include <cstring>
#include "../hide.h"

int main()
{
    char *text = HIDE(strdup(HIDE((const char *)"a text")));
    delete text; // here
    return 0;
}
