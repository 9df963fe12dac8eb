// C++ exceptions and longjmp through functions that the tracer took over: qsort's and the allocator's callbacks.
// lackey: no
// expect: caught size=4 loads=1 modifies=21
// stdout: 21
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include "access.h"

int caught;
static jmp_buf back;

static int compare(const void *, const void *) { throw std::runtime_error("from a callback"); }
static int jump(const void *, const void *) { longjmp(back, 1); }
static void no_memory() { throw std::bad_alloc(); }

__attribute__((noinline)) static void thrower(int n)
{
    std::string kept(100, 'x');
    if (n == 0)
        throw n;
    thrower(n - 1);
}

int main()
{
    int numbers[4] = {3, 1, 2, 0};
    for (int i = 0; i < 10; i++) {
        try {
            thrower(i);
        } catch (int) {
            MODIFY("incl", caught);
        }
        try {
            qsort(numbers, 4, sizeof *numbers, compare);
        } catch (const std::exception &) {
            MODIFY("incl", caught);
        }
    }
    std::set_new_handler(no_memory);
    try {
        volatile size_t huge = size_t(1) << 62;
        char *volatile block = new char[huge];
        delete[] block;
    } catch (const std::bad_alloc &) {
        MODIFY("incl", caught);
    }
    if (!setjmp(back))
        qsort(numbers, 4, sizeof *numbers, jump);
    printf("%d\n", LOAD(caught));
    return 0;
}
