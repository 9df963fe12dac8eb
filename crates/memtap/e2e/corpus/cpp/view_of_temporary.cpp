// A view of a string that was a temporary.
// command: errors
// expect: use_after_free
#include <string>
#include <string_view>
#include "../hide.h"

NOINLINE static std::string make()
{
    return std::string(HIDE(60), 'x');
}

int main()
{
    std::string_view view = make();
    const char *at = HIDE(view.data() + 40);
    return HIDE(*at) == 77; // here
}
