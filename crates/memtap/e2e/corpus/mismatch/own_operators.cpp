// The program's own operators new and delete, of malloc and free.
// command: errors
// expect: nothing
#include <cstdlib>
#include <new>
#include <string>
#include "../hide.h"

static int balance;

void *operator new(std::size_t size)
{
    balance++;
    if (void *block = malloc(size ? size : 1))
        return block;
    throw std::bad_alloc();
}

void operator delete(void *block) noexcept
{
    balance--;
    free(block);
}

void operator delete(void *block, std::size_t) noexcept
{
    balance--;
    free(block);
}

int main()
{
    {
        std::string text(HIDE(40), 'x');
        text += text;
        delete HIDE(new long(text.size()));
        delete[] HIDE(new long[3]());
    }
    return balance;
}
