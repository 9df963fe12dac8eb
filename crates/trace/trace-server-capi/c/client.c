/* Writes a trace of two streams to a memtap server, reads it back while it is still open, and finds entries again.
 *
 *   cc -o client client.c $(pkg-config --cflags --libs memtap-client)
 *   memtap serve --listen unix:/tmp/memtap.sock --root /tmp/traces &
 *   ./client unix:/tmp/memtap.sock example.memtap      (a single - instead of the URL: a server inside this process)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <memtap_client.h>

#define COUNT 100000

/* A type of our own: what a disk did. */
typedef struct {
    uint64_t cycle;
    uint64_t sector;
    uint32_t bytes;
    uint32_t is_write;
} disk_event;

static void need(int status, const char *what) {
    if (status != MEMTAP_OK) {
        fprintf(stderr, "client: %s: error %d: %s\n", what, status, memtap_error());
        exit(1);
    }
}

static memtap_access access_of(uint64_t number) {
    memtap_access access = {0};
    access.cycle = number * 2;
    access.ip = 0x400000 + number % 50 * 4;
    access.address = 0x7f0000000000 + number % 1000 * 8;
    access.size = 8;
    access.kind = number % 2;
    return access;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: client URL|- SPECIFIER [TOKEN]\n");
        return 2;
    }
    memtap_client *client;
    const char *url = strcmp(argv[1], "-") == 0 ? NULL : argv[1];
    need(memtap_connect(url, argc > 3 ? argv[3] : NULL, &client), "connect");
    uint64_t session;
    need(memtap_session_create(client, "example", &session), "create the session");
    need(memtap_trace_create(client, argv[2], 0, 4096), "create the trace");
    need(memtap_property(client, "program", "client.c"), "say something");

    uint32_t accesses_type, disk_type, accesses, disk;
    need(memtap_type_own(client, "accesses", &accesses_type), "find the type");
    const uint8_t guid[16] = {0xd1, 0x5c, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    const memtap_field fields[] = {
        {"cycle", 0, 8, MEMTAP_GROWING},
        {"sector", 8, 8, MEMTAP_ADDRESS},
        {"bytes", 16, 4, MEMTAP_PLAIN},
        {"is_write", 20, 4, MEMTAP_PLAIN},
    };
    need(memtap_type_register(client, guid, "disk event", sizeof(disk_event), fields, 4, &disk_type), "register");
    need(memtap_stream_register(client, "accesses", accesses_type, &accesses), "add a stream");
    need(memtap_stream_register(client, "disk", disk_type, &disk), "add a stream");

    /* Entries are filled in place, in memory that the server sees. */
    memtap_writer *writer;
    need(memtap_writer_open(client, accesses, &writer), "open a writer");
    for (uint64_t number = 0; number < COUNT; number++) {
        memtap_access *place = memtap_next_entry(writer);
        if (place == NULL)
            need(MEMTAP_E_CHANNEL, "get an entry");
        *place = access_of(number);
        memtap_submit(writer);
    }
    memtap_shared_writer *shared;
    need(memtap_shared_writer_open(client, disk, &shared), "open a writer");
    for (uint32_t number = 0; number < 1000; number++) {
        disk_event event = {number * 100, number * 8, 4096, number % 3 == 0};
        need(memtap_shared_write(shared, &event, sizeof event), "write");
    }
    need(memtap_shared_writer_close(shared), "close the writer");
    need(memtap_writer_close(writer), "close the writer");
    need(memtap_flush(client, 0), "flush");

    /* The trace is still open; all of it can be read. */
    memtap_reader *reader;
    memtap_batch batch;
    need(memtap_reader_open(client, accesses, NULL, &reader), "open a reader");
    uint64_t index = 0;
    do {
        need(memtap_read(reader, index, UINT32_MAX, &batch), "read");
        const memtap_access *read = batch.entries;
        for (size_t place = 0; place < batch.count; place++) {
            memtap_access expected = access_of(memtap_entry_index(reader, place));
            if (memcmp(&read[place], &expected, sizeof expected) != 0) {
                fprintf(stderr, "client: entry %" PRIu64 " is another one\n", batch.first_index + place);
                return 1;
            }
        }
        index = batch.next_index;
    } while (index < batch.end_index);
    memtap_reader_close(reader);
    printf("%" PRIu64 " entries\n", index);

    need(memtap_seek(client, accesses, MEMTAP_BY_CYCLE, 100001, &index), "seek");
    printf("cycle 100001 is before entry %" PRIu64 "\n", index);
    memtap_filter filter = {0};
    filter.cycles_from = 1000;
    filter.cycles_to = 2000;
    filter.kinds = 1 << 1; /* stores */
    need(memtap_reader_open(client, accesses, &filter, &reader), "open a reader");
    size_t stores = 0;
    index = 0;
    do {
        need(memtap_read(reader, index, UINT32_MAX, &batch), "read");
        stores += batch.count;
        index = batch.next_index;
    } while (index < batch.end_index);
    memtap_reader_close(reader);
    printf("%zu stores in cycles 1000 to 2000\n", stores);

    memtap_stream_info infos[8];
    size_t count;
    need(memtap_streams(client, infos, 8, &count), "list the streams");
    for (size_t place = 0; place < count && place < 8; place++)
        if (infos[place].stream == accesses || infos[place].stream == disk)
            printf("%s: %" PRIu64 " entries of %u bytes\n", infos[place].name, infos[place].entries,
                   infos[place].entry_bytes);

    /* Errors are values with texts. */
    if (memtap_writer_open(client, 999, &writer) == MEMTAP_E_UNKNOWN)
        printf("refused: %s\n", memtap_error());
    uint64_t bytes;
    need(memtap_trace_close(client, &bytes), "close the trace");
    memtap_disconnect(client);
    return bytes > 0 ? 0 : 1;
}
