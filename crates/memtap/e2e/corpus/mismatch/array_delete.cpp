// Deletes an array by delete without brackets.
// command: errors
// expect: mismatched_free
#include "../hide.h"

int main()
{
    int *numbers = HIDE(new int[20]());
    delete numbers; // here
    return 0;
}
