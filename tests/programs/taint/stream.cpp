// A line of input names the file that a stream opens: the C++ library opens it, and the program asked for it.
// build: -O0
// stdin: /nowhere/at/all
// sink: system_call_memory|main|read|0
#include <fstream>
#include <unistd.h>

int main()
{
    char line[64] = {0};
    if (read(0, line, 15) != 15) // SOURCE
        return 1;
    std::ifstream file(line); // SINK
    return file.is_open();
}
