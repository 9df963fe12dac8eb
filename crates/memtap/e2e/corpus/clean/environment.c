// The environment, time and locale of the C library, which allocate inside of it.
// command: errors
// record: --data
// expect: nothing
#include <locale.h>
#include <stdlib.h>
#include <time.h>
#include "../hide.h"

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    setenv("CORPUS_NAME", "a value of some length", 1);
    setenv("CORPUS_NAME", "another value", 1);
    time_t now = 1000000000;
    struct tm *parts = localtime(&now);
    int is_set = getenv("CORPUS_NAME") != NULL;
    unsetenv("CORPUS_NAME");
    return is_set + HIDE(parts->tm_sec) == 77;
}
