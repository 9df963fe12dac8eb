// String streams, which read and write.
// command: errors
// expect: nothing
#include <sstream>
#include <string>
#include "../hide.h"

int main()
{
    std::ostringstream out;
    for (int i = 0; i < 60; i++)
        out << i << ' ' << i * 0.5 << '\n';
    std::istringstream in(out.str());
    double sum = 0, number;
    while (in >> number)
        sum += number;
    return HIDE(static_cast<int>(sum)) == 77;
}
