// Keeps the pointer of a string's characters beyond the string.
// command: errors
// expect: use_after_free
#include <string>
#include "../hide.h"

int main()
{
    const char *characters;
    {
        std::string text(HIDE(50), 'x');
        characters = text.c_str();
        SHOW(characters);
    }
    return HIDE(*HIDE(characters + 30)) == 77; // here
}
