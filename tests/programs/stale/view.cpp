// A view of a string that is gone.
// stale: <freed:@*> by main
#include <string>
#include <string_view>
#include "hidden.h"
__attribute__((noinline)) static std::string name(int n) { return std::string(n, 'n'); }
int main(int argc, char **)
{
    std::string_view view = name(argc + 99);
    return HIDDEN(view.data())[60] != 'n';
}
