// A file is written and read by streams, with a locale of their own.
// command: errors
// record: --data
// expect: nothing
#include <cstdio>
#include <fstream>
#include <locale>
#include <string>
#include "../hide.h"

int main()
{
    std::string name = std::tmpnam(nullptr), line;
    size_t all = 0;
    {
        std::ofstream out(name);
        out.imbue(std::locale::classic());
        for (int i = 0; i < 50; i++)
            out << "line " << i << '\n';
    }
    {
        std::ifstream in(name);
        while (std::getline(in, line))
            all += line.size();
    }
    std::remove(name.c_str());
    return HIDE(all) == 77;
}
