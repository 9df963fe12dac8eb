/* Writes accesses and, beside them, messages of any length with the cycle of each; reads both as one in the order of their cycles, and the
 * last messages backwards.
 *
 *   cc -o messages messages.c $(pkg-config --cflags --libs memtap-client)
 *   ./messages - messages.memtap      (a URL instead of the -: a server)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <memtap_client.h>

#define ACCESSES 10000
#define MESSAGES 5

/* What was said, and when. */
typedef struct {
    uint64_t cycle;
    uint64_t text; /* the reference of a datum */
} message;

static void need(int status, const char *what) {
    if (status != MEMTAP_OK) {
        fprintf(stderr, "messages: %s: error %d: %s\n", what, status, memtap_error());
        exit(1);
    }
}

static void say(memtap_data_reader *texts, const memtap_entry *at) {
    const message *said = at->entry;
    const void *text;
    size_t bytes;
    need(memtap_data_read(texts, said->text, &text, &bytes), "read a text");
    if (text == NULL) {
        fprintf(stderr, "messages: the text of message %" PRIu64 " is not there\n", at->index);
        exit(1);
    }
    printf("cycle %" PRIu64 ": %.20s%s (%zu bytes)\n", said->cycle, (const char *)text, bytes > 20 ? "..." : "", bytes);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: messages URL|- SPECIFIER [TOKEN]\n");
        return 2;
    }
    memtap_client *client;
    uint64_t session;
    need(memtap_connect(strcmp(argv[1], "-") == 0 ? NULL : argv[1], argc > 3 ? argv[3] : NULL, &client), "connect");
    need(memtap_session_create(client, "messages", &session), "create the session");
    need(memtap_trace_create(client, argv[2], 0, 0), "create the trace");

    const uint8_t texts_guid[16] = {0x7e, 1}, messages_guid[16] = {0x7e, 2};
    const memtap_field fields[] = {{"cycle", 0, 8, MEMTAP_GROWING}, {"text", 8, 8, MEMTAP_PLAIN}};
    uint32_t messages_type, accesses_type, texts, messages, accesses;
    need(memtap_data_stream_register(client, texts_guid, "texts", &texts), "add the texts");
    need(memtap_type_register(client, messages_guid, "message", sizeof(message), fields, 2, &messages_type), "register");
    need(memtap_stream_register(client, "messages", messages_type, &messages), "add the messages");
    need(memtap_type_own(client, "accesses", &accesses_type), "find the type");
    need(memtap_stream_register(client, "accesses", accesses_type, &accesses), "add the accesses");

    memtap_writer *writer;
    need(memtap_writer_open(client, accesses, &writer), "open a writer");
    for (uint64_t number = 0; number < ACCESSES; number++) {
        memtap_access access = {.cycle = number * 2, .ip = 0x400000, .address = 0x10000 + number * 8, .size = 8};
        need(memtap_write(writer, &access, 1), "write");
    }
    need(memtap_writer_close(writer), "close the writer");
    memtap_data_writer *data;
    need(memtap_data_writer_open(client, texts, &data), "open a writer of data");
    need(memtap_writer_open(client, messages, &writer), "open a writer");
    for (uint64_t number = 0; number < MESSAGES; number++) {
        char text[400];
        int bytes = snprintf(text, sizeof text, "message %" PRIu64 "%*s", number, (int)number * 90, "");
        message said = {.cycle = number * 3001};
        need(memtap_data_write(data, text, (size_t)bytes, &said.text), "write a text");
        need(memtap_write(writer, &said, 1), "write");
    }
    need(memtap_data_writer_close(data), "close the writer of data");
    need(memtap_writer_close(writer), "close the writer");
    need(memtap_flush(client, 0), "flush");

    memtap_stream_description description;
    need(memtap_stream_describe(client, messages, &description), "describe");
    printf("%s: %s of %" PRIu32 " bytes:", description.name, description.type_name, description.entry_bytes);
    for (size_t field = 0; field < description.field_count; field++)
        printf(" %s", description.fields[field].name);
    need(memtap_stream_describe(client, texts, &description), "describe");
    printf("; %s: %s\n", description.name, description.flags & MEMTAP_STREAM_DATA ? "data" : "entries");

    memtap_data_reader *reader;
    need(memtap_data_reader_open(client, texts, &reader), "open a reader of data");
    memtap_multiplexer *both;
    need(memtap_multiplexer_open(client, (uint32_t[]){messages, accesses}, 2, "cycle", NULL, &both), "multiplex");
    memtap_entry at;
    uint64_t before = 0, cycle;
    size_t count = 0;
    for (need(memtap_multiplexer_next(both, &at), "read"); at.entry != NULL; need(memtap_multiplexer_next(both, &at), "read")) {
        memcpy(&cycle, at.entry, sizeof cycle);
        if (cycle < before) {
            fprintf(stderr, "messages: cycle %" PRIu64 " comes after %" PRIu64 "\n", cycle, before);
            return 1;
        }
        before = cycle;
        if (at.stream == messages) {
            printf("after %zu accesses, ", count);
            say(reader, &at);
        } else {
            count++;
        }
    }
    memtap_multiplexer_close(both);

    memtap_cursor *cursor;
    need(memtap_cursor_open(client, messages, NULL, &cursor), "open a cursor");
    need(memtap_cursor_seek(cursor, UINT64_MAX), "seek");
    for (int last = 0; last < 2; last++) {
        need(memtap_cursor_previous(cursor, &at), "go back");
        say(reader, &at);
    }
    need(memtap_cursor_next(cursor, &at), "go on");
    printf("again message %" PRIu64 ", then ", at.index);
    need(memtap_cursor_next(cursor, &at), "go on");
    need(memtap_cursor_next(cursor, &at), "go on");
    printf("%s\n", at.entry == NULL ? "the end" : "more");
    memtap_cursor_close(cursor);
    memtap_data_reader_close(reader);

    /* What can't be: a stream that grows by no such field. */
    memtap_multiplexer *none;
    if (memtap_multiplexer_open(client, &messages, 1, "text", NULL, &none) != MEMTAP_OK)
        printf("refused: %s\n", memtap_error());
    need(memtap_trace_close(client, NULL), "close the trace");
    memtap_disconnect(client);
    return 0;
}
