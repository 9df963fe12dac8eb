// A vector so large that operator new's malloc asks the system for more memory.
// command: errors
// expect: nothing
#include <vector>
#include "../hide.h"

struct row {
    double cells[11];
};

int main()
{
    std::vector<row> rows(1000);
    SHOW(&rows);
    rows.resize(3000);
    return HIDE(static_cast<int>(rows[2999].cells[3])) == 77;
}
