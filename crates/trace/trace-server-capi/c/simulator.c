/* A simulator with memtap attached: a processor of nine instructions that sorts an array, every load and store of which goes
 * to a trace. What attaching takes is attach(), record() and detach(); the rest is the simulator.
 *
 *   cc -o simulator simulator.c $(pkg-config --cflags --libs memtap-client)
 *   ./simulator - sort.memtap           (or the URL of a server instead of -, for many simulators at once)
 *   memtap report sort.memtap --by page
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <memtap_client.h>

enum { CELLS = 300, ARRAY = 0x1000, CODE = 0x400000, MEMORY_BYTES = 1 << 16 };

/* Attaching memtap. */

static memtap_client *client;
static memtap_writer *writer;

static void need(int status, const char *what)
{
    if (status != MEMTAP_OK) {
        fprintf(stderr, "simulator: %s: %s\n", what, memtap_error());
        exit(1);
    }
}

static void attach(const char *url, const char *specifier)
{
    uint64_t session;
    uint32_t type, stream;
    need(memtap_connect(strcmp(url, "-") == 0 ? NULL : url, NULL, &client), "connect");
    need(memtap_session_create(client, "simulator", &session), "create the session");
    need(memtap_trace_create(client, specifier, 0, 0), "create the trace");
    need(memtap_property(client, "program", "sort"), "name the program");
    need(memtap_property(client, "tracer", "simulator.c"), "name the tracer");
    need(memtap_type_own(client, "accesses", &type), "find the type");
    /* Of thread 0 in process 0: each processor of a larger simulator would be a thread, with a writer of its own. */
    need(memtap_thread_stream_register(client, "accesses", type, 0, 0, &stream), "add the stream");
    need(memtap_writer_open(client, stream, &writer), "open a writer");
}

/* Fills an entry in memory that the store sees; the store compresses in the background. */
static void record(uint64_t cycle, uint64_t ip, uint64_t address, uint32_t size, uint8_t kind)
{
    memtap_access *entry = memtap_next_entry(writer);
    if (entry == NULL)
        need(MEMTAP_E_CHANNEL, "get an entry");
    *entry = (memtap_access){.cycle = cycle, .ip = ip, .address = address, .size = size, .kind = kind};
    memtap_submit(writer);
}

static void detach(void)
{
    uint64_t bytes;
    need(memtap_writer_close(writer), "close the writer");
    need(memtap_trace_close(client, &bytes), "close the trace");
    memtap_disconnect(client);
}

/* The simulator. */

typedef enum { SET, ADD, LOAD, STORE, LESS, JUMP_IF, JUMP, RANDOM, HALT } operation;

typedef struct {
    operation what;
    int to, from, other; /* registers, or a number in `other` */
} instruction;

enum { I, J, A, B, CONDITION, END, ADDRESS, REGISTERS };

/* Fills the array with numbers and sorts it by exchanging neighbours. */
static const instruction program[] = {
    /*  0 */ {SET, I, 0, ARRAY},
    /*  1 */ {SET, END, 0, ARRAY + CELLS * 4},
    /*  2 */ {RANDOM, A, 0, 0},
    /*  3 */ {STORE, A, I, 0},
    /*  4 */ {ADD, I, I, 4},
    /*  5 */ {LESS, CONDITION, I, END},
    /*  6 */ {JUMP_IF, 2, CONDITION, 0},
    /*  7 */ {ADD, END, END, -4}, /* the outer loop: the largest has come to the end */
    /*  8 */ {SET, J, 0, ARRAY},
    /*  9 */ {LESS, CONDITION, J, END},
    /* 10 */ {JUMP_IF, 12, CONDITION, 0},
    /* 11 */ {JUMP, 20, 0, 0},
    /* 12 */ {LOAD, A, J, 0}, /* the inner loop */
    /* 13 */ {LOAD, B, J, 4},
    /* 14 */ {ADD, J, J, 4},
    /* 15 */ {LESS, CONDITION, B, A},
    /* 16 */ {JUMP_IF, 18, CONDITION, 0},
    /* 17 */ {JUMP, 9, 0, 0}, /* leaves the loop when the end is reached */
    /* 18 */ {STORE, B, J, -4},
    /* 19 */ {STORE, A, J, 0},
    /* 20 */ {LESS, CONDITION, J, END},
    /* 21 */ {JUMP_IF, 12, CONDITION, 0},
    /* 22 */ {SET, I, 0, ARRAY + 4},
    /* 23 */ {LESS, CONDITION, I, END},
    /* 24 */ {JUMP_IF, 7, CONDITION, 0},
    /* 25 */ {HALT, 0, 0, 0},
};

static uint8_t memory[MEMORY_BYTES];

static uint32_t *cell(uint32_t address)
{
    if (address % 4 != 0 || address > MEMORY_BYTES - 4) {
        fprintf(stderr, "simulator: no memory at %#" PRIx32 "\n", address);
        exit(1);
    }
    return (uint32_t *)(void *)(memory + address);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: simulator URL|- FILE\n");
        return 2;
    }
    attach(argv[1], argv[2]);
    uint32_t registers[REGISTERS] = {0}, seed = 1;
    uint64_t cycle = 0, loads = 0, stores = 0;
    for (uint32_t at = 0; program[at].what != HALT; cycle++) {
        const instruction *now = &program[at];
        uint64_t ip = CODE + at * sizeof(instruction);
        uint32_t *to = &registers[now->to < REGISTERS ? now->to : 0];
        uint32_t address = registers[now->from] + (uint32_t)now->other;
        at++;
        switch (now->what) {
        case SET:
            *to = (uint32_t)now->other;
            break;
        case ADD:
            *to = address;
            break;
        case LOAD:
            *to = *cell(address);
            record(cycle, ip, address, 4, 0);
            loads++;
            break;
        case STORE:
            *cell(address) = *to;
            record(cycle, ip, address, 4, 1);
            stores++;
            break;
        case LESS:
            *to = registers[now->from] < registers[now->other];
            break;
        case JUMP_IF:
            at = registers[now->from] ? (uint32_t)now->to : at;
            break;
        case JUMP:
            at = (uint32_t)now->to;
            break;
        case RANDOM:
            *to = (seed = seed * 1664525 + 1013904223) >> 16;
            break;
        case HALT:
            break;
        }
    }
    for (uint32_t place = 1; place < CELLS; place++)
        if (*cell(ARRAY + place * 4 - 4) > *cell(ARRAY + place * 4))
            fprintf(stderr, "simulator: the array is not sorted\n");
    detach();
    printf("%" PRIu64 " instructions, %" PRIu64 " loads, %" PRIu64 " stores\n", cycle, loads, stores);
    return 0;
}
