// Prints by std::cout.
// command: errors
// expect: nothing
#include <iostream>
#include <string>

int main()
{
    for (int i = 0; i < 5; i++)
        std::cout << std::string(i * 9, '-') << i << std::endl;
    return 0;
}
