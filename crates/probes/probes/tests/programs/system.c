// Calls functions of the C library so many times each. No other function of the library calls these.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <libgen.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(void) {
    // Through pointers, so that the compiler puts nothing in their place.
    void *(*volatile find)(const void *, const void *, size_t *, size_t, __compar_fn_t) = lfind;
    long (*volatile from64)(const char *) = a64l;
    in_addr_t (*volatile address)(const char *) = inet_addr;
    char *(*volatile base)(char *) = basename;
    void (*volatile swap)(const void *restrict, void *restrict, ssize_t) = swab;
    char *(*volatile stir)(char *) = strfry;
    int numbers[] = {3, 1, 2}, key = 2;
    size_t count = 3;
    long sum = 0;
    for (int i = 0; i < 100; i++) sum += find(&key, numbers, &count, sizeof key, compare) != NULL;
    for (int i = 0; i < 200; i++) sum += from64("1");
    for (int i = 0; i < 300; i++) sum += address("0.0.0.0") == 0;
    for (int i = 0; i < 400; i++) {
        char path[] = "/a/b";
        sum += base(path)[0] == 'b';
    }
    for (int i = 0; i < 500; i++) {
        char from[] = "ab", to[3] = "";
        swap(from, to, 2);
        sum += to[0] == 'b';
    }
    for (int i = 0; i < 600; i++) {
        char word[] = "a";
        sum += stir(word)[0] == 'a';
    }
    printf("%ld\n", sum);
    return 0;
}
