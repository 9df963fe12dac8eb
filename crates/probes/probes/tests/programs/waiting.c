/* Waits for the end of its standard input. */
#include <stdio.h>
#include <unistd.h>

int main(void) {
    char c;
    printf("ready\n");
    fflush(stdout);
    while (read(0, &c, 1) > 0) {
    }
    return 0;
}
