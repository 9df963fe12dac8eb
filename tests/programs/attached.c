// Turns whose accesses are counted by hand, until standard input ends: for recordings that begin and end in the middle.
// A turn: load, store, load, store, load of cell; a modify of turns.
// stdout: ready
// stdout: right
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "access.h"

long cell;
long turns;

int main(void) {
    char byte;
    long expected = 0;
    puts("ready");
    fflush(stdout);
    fcntl(0, F_SETFL, O_NONBLOCK);
    while (read(0, &byte, 1) != 0) {
        REPEAT(16) {
            long seen = LOAD(cell);
            STORE(cell, seen + 1);
            seen += LOAD(cell);
            STORE(cell, seen);
            expected = expected * 2 + 1;
            if (LOAD(cell) != expected) {
                puts("wrong");
                return 1;
            }
            MODIFY("addq $1,", turns);
        }
        struct timespec moment = {0, 1000000};
        if (nanosleep(&moment, NULL) != 0) {
            puts("a sleep was interrupted");
            return 1;
        }
    }
    puts("right");
    return 0;
}
