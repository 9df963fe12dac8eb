// A locale with a facet of the program's, which the C++ library deletes by its virtual destructor.
// command: errors
// record: --data
// expect: nothing
#include <locale>
#include <string>
#include <sstream>
#include "../hide.h"

struct commas : std::numpunct<char> {
    std::string spare = "a string that is long enough for the heap";
    char do_decimal_point() const override { return ','; }
    std::string do_grouping() const override { return "\3"; }
};

int main()
{
    std::ostringstream out;
    {
        std::locale locale(std::locale::classic(), HIDE(new commas()));
        out.imbue(locale);
        out << 1234567 << ' ' << 1.5;
        out.imbue(std::locale::classic());
    }
    return out.str().size() == 77;
}
