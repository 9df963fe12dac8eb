// A static object releases its block after main has returned.
// command: errors
// record: --data
// expect: nothing
#include <string>
#include "../hide.h"

static std::string text;

int main()
{
    text.assign(HIDE(100), 'x');
    return HIDE(text.size()) == 77;
}
