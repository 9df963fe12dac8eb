// One error of each kind that a program survives.
#include <cstdlib>
#include <cstring>

extern "C" {
static volatile int seen;

// 24 bytes are all that the allocator has there; the byte after them is its own.
__attribute__((noinline)) static void past_the_end(volatile char *block) { seen = block[24]; }

__attribute__((noinline)) static void before_the_beginning(volatile char *block) { seen = block[-1]; }

__attribute__((noinline)) static void compares(int *block)
{
    if (block[2] > 3)
        seen = 1;
}

__attribute__((noinline)) static void released_wrongly(int *one) { std::free(one); }

__attribute__((noinline)) static void right(char *block)
{
    // Written, copied, and compared: nothing is wrong, though the copy has bytes that nobody wrote.
    char copy[24];
    block[3] = 'x';
    std::memcpy(copy, block, 24);
    if (block[3] == 'x')
        seen = copy[3];
}
}

int main()
{
    char *block = static_cast<char *>(std::malloc(24));
    right(block);
    for (int i = 0; i < 3; i++)
        past_the_end(block);
    before_the_beginning(block);
    int *numbers = static_cast<int *>(std::malloc(16));
    compares(numbers);
    std::free(numbers);
    released_wrongly(new int(5));
    std::free(block);
    void *volatile leaked = std::malloc(1000);
    void *volatile unused = std::malloc(500);
    static_cast<char *>(leaked)[0] = 1;
    std::free(unused);
    return 0;
}
