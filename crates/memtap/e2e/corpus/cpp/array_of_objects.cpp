// Arrays of objects with destructors, whose number new[] keeps before them.
// command: errors
// record: --data
// expect: nothing
#include <string>
#include "../hide.h"

int main()
{
    for (int count = 0; count < 9; count++) {
        std::string *names = HIDE(new std::string[count]);
        for (int i = 0; i < count; i++)
            names[i].assign(20 * i, 'x');
        delete[] names;
    }
    return 0;
}
