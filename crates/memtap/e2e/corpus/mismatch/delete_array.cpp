// Deletes an object by delete[].
// command: errors
// expect: mismatched_free
#include "../hide.h"

int main()
{
    int *number = HIDE(new int(20));
    delete[] number; // here
    return 0;
}
