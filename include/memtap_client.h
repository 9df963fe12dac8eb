/* The trace store's client library: write traces to a memtap server and read them, from C and C++.
 *
 * A client is a channel to a server. It creates or opens a session; the session has one trace; a trace has streams of
 * entries of one type each. Each thread that writes or reads has a client of its own and opens the same session, or
 * threads share a memtap_shared_writer.
 *
 * Every function that returns int returns 0, or one of MEMTAP_E_* (docs/protocol.md, "Messages"); memtap_error() then says
 * in words what was wrong. Handles are used by one thread at a time, but for memtap_shared_writer. Text is UTF-8.
 *
 * Build with: cc prog.c $(pkg-config --cflags --libs memtap-client)
 */
#ifndef MEMTAP_CLIENT_H
#define MEMTAP_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MEMTAP_OK = 0,
    MEMTAP_E_MALFORMED = 1,     /* the server did not understand */
    MEMTAP_E_NOT_ADMITTED = 2,  /* token, user or version */
    MEMTAP_E_OUTSIDE_ROOT = 3,  /* the path leads out of the server's root */
    MEMTAP_E_UNKNOWN = 4,       /* no such session, stream, writer or reader */
    MEMTAP_E_FILE = 5,          /* the file */
    MEMTAP_E_NO_ROOM = 6,       /* too many clients, or no memory */
    MEMTAP_E_MODE = 7,          /* the session's trace does not allow it */
    MEMTAP_E_INCOMPLETE = 8,    /* the trace could not be written to the end */
    MEMTAP_E_ARGUMENT = 100,    /* a null pointer, text that is not UTF-8, a length that does not fit */
    MEMTAP_E_CHANNEL = 101      /* there is no server, or it is gone */
};

typedef struct memtap_client memtap_client;
typedef struct memtap_writer memtap_writer;
typedef struct memtap_shared_writer memtap_shared_writer;
typedef struct memtap_reader memtap_reader;
typedef struct memtap_data_writer memtap_data_writer;
typedef struct memtap_data_reader memtap_data_reader;
typedef struct memtap_cursor memtap_cursor;
typedef struct memtap_multiplexer memtap_multiplexer;

/* What a field holds. Growing fields named "cycle" and address fields named "ip" and others can be searched for. */
enum { MEMTAP_PLAIN = 0, MEMTAP_GROWING = 1, MEMTAP_ADDRESS = 2 };

typedef struct memtap_field {
    const char *name;
    uint16_t offset; /* in the entry */
    uint8_t bytes;   /* 1, 2, 4 or 8; little-endian */
    uint8_t role;
} memtap_field;

/* memtap's own type of accesses. */
typedef struct memtap_access {
    uint64_t cycle;
    uint64_t ip;
    uint64_t address;
    uint32_t size;
    uint8_t kind; /* 0 load, 1 store, 2 modify, 3 prefetch */
    uint8_t zero[3];
} memtap_access;

typedef struct memtap_stream_info {
    uint32_t stream;
    uint32_t entry_bytes;
    uint64_t entries;
    uint64_t stored_bytes;
    uint64_t first_cycle, last_cycle;     /* first > last: the type has no cycles */
    uint64_t first_wall_ns, last_wall_ns; /* since the Unix epoch */
    char name[64];                        /* cut where it is longer */
} memtap_stream_info;

enum { MEMTAP_STREAM_DATA = 1, MEMTAP_STREAM_HIDDEN = 2 };

/* As a stream was announced. What it points to is valid until the client describes another one or ends. */
typedef struct memtap_stream_description {
    uint8_t guid[16]; /* of the type */
    const char *name, *type_name;
    const memtap_field *fields;
    size_t field_count;
    uint32_t entry_bytes;
    uint32_t process, thread; /* UINT32_MAX: of none */
    uint32_t flags;
} memtap_stream_description;

/* Zeros ask for everything. */
typedef struct memtap_filter {
    uint64_t cycles_from, cycles_to;       /* to is exclusive; 0, 0: all */
    uint64_t wall_ns_from, wall_ns_to;     /* by segment */
    uint64_t addresses_from, addresses_to;
    uint64_t ips_from, ips_to;
    uint32_t kinds;                        /* bits as in docs/format.md; 0: all */
} memtap_filter;

typedef struct memtap_batch {
    const void *entries; /* valid until the reader is used again */
    size_t count;
    uint64_t first_index;
    uint64_t next_index; /* where to read on */
    uint64_t end_index;  /* after the last entry that the server knows; a trace that is being written has more later */
    uint64_t lost;       /* damaged or missing entries on the way */
} memtap_batch;

typedef struct memtap_entry {
    const void *entry; /* null at the end; valid until the next call */
    uint64_t index;    /* in its stream */
    uint32_t stream;
    uint32_t bytes;
} memtap_entry;

enum { MEMTAP_BY_INDEX = 0, MEMTAP_BY_CYCLE = 1, MEMTAP_BY_WALL_NS = 2 };
enum { MEMTAP_REPLACE = 1, MEMTAP_SYNC_NEVER = 2, MEMTAP_SYNC_EACH_FLUSH = 4 };

/* The text of the calling thread's last failure; never null. Valid until its next one. */
const char *memtap_error(void);

/* url: "unix:PATH", "tcp:HOST:PORT", or null for a server inside this process. token: for TCP, otherwise null. */
int memtap_connect(const char *url, const char *token, memtap_client **client);
/* Leaves the session; with its last client the trace is closed. Writers and readers are closed before. */
void memtap_disconnect(memtap_client *client);

int memtap_session_create(memtap_client *client, const char *name, uint64_t *session);
int memtap_session_open(memtap_client *client, uint64_t session);
int memtap_session_leave(memtap_client *client);

/* specifier: "PATH", "memtap:PATH", or for writing only "lackey:PATH", "din:PATH", "entries64:PATH".
 * segment_entries: entries that are compressed together; 0 leaves it to the server. */
int memtap_trace_create(memtap_client *client, const char *specifier, uint32_t flags, uint32_t segment_entries);
int memtap_trace_open(memtap_client *client, const char *specifier);
int memtap_trace_append(memtap_client *client, const char *specifier);
int memtap_trace_close(memtap_client *client, uint64_t *file_bytes);
int memtap_property(memtap_client *client, const char *key, const char *value);

/* Registers a type of entries with the client. */
int memtap_type_register(memtap_client *client, const uint8_t guid[16], const char *name, uint32_t entry_bytes,
                         const memtap_field *fields, size_t field_count, uint32_t *type);
/* One of memtap's own types by its name (docs/format.md, "Entry types"), such as "accesses". */
int memtap_type_own(memtap_client *client, const char *name, uint32_t *type);
int memtap_stream_register(memtap_client *client, const char *name, uint32_t type, uint32_t *stream);
/* The same of a thread, which need not be announced: memtap's commands count the stream `accesses` of each thread. */
int memtap_thread_stream_register(memtap_client *client, const char *name, uint32_t type, uint32_t process,
                                  uint32_t thread, uint32_t *stream);
/* Fills at most capacity places of infos; count is how many streams there are. */
int memtap_streams(memtap_client *client, memtap_stream_info *infos, size_t capacity, size_t *count);

int memtap_stream_describe(memtap_client *client, uint32_t stream, memtap_stream_description *description);

int memtap_writer_open(memtap_client *client, uint32_t stream, memtap_writer **writer);
/* The place of the next entry, which memtap_submit completes; null on failure. A full buffer goes to the server here. */
void *memtap_next_entry(memtap_writer *writer);
void memtap_submit(memtap_writer *writer);
/* Copies whole entries. */
int memtap_write(memtap_writer *writer, const void *entries, size_t count);
int memtap_writer_close(memtap_writer *writer);

/* For any number of threads at once. */
int memtap_shared_writer_open(memtap_client *client, uint32_t stream, memtap_shared_writer **writer);
int memtap_shared_write(memtap_shared_writer *writer, const void *entry, size_t bytes);
int memtap_shared_writer_close(memtap_shared_writer *writer);

/* Data of any length, such as names and messages, in a stream of their own; entries hold their references. A stream of them has one
 * writer at a time. */
int memtap_data_stream_register(memtap_client *client, const uint8_t guid[16], const char *name, uint32_t *stream);
int memtap_data_writer_open(memtap_client *client, uint32_t stream, memtap_data_writer **writer);
int memtap_data_write(memtap_data_writer *writer, const void *data, size_t bytes, uint64_t *reference);
int memtap_data_writer_close(memtap_data_writer *writer);
int memtap_data_reader_open(memtap_client *client, uint32_t stream, memtap_data_reader **reader);
/* The data are null where none begins at the reference, or a part of it is damaged or not in the file yet; valid until the next call. A
 * zero byte that is not counted stands behind them, so that text can be printed as it is. */
int memtap_data_read(memtap_data_reader *reader, uint64_t reference, const void **data, size_t *bytes);
void memtap_data_reader_close(memtap_data_reader *reader);

/* Returns when all that was submitted is in the file; with sync, on the disk. */
int memtap_flush(memtap_client *client, int sync);

/* filter may be null. */
int memtap_reader_open(memtap_client *client, uint32_t stream, const memtap_filter *filter, memtap_reader **reader);
/* At most most entries from index on. There may be none although next_index is not end_index: read on there. */
int memtap_read(memtap_reader *reader, uint64_t index, uint32_t most, memtap_batch *batch);
/* The index of an entry of the last batch. */
uint64_t memtap_entry_index(const memtap_reader *reader, size_t place);
void memtap_reader_close(memtap_reader *reader);
/* The index of the first entry at or after a position; the end index where there is none. */
int memtap_seek(memtap_client *client, uint32_t stream, int by, uint64_t value, uint64_t *index);

/* A place between two entries; it begins before the first. filter may be null. */
int memtap_cursor_open(memtap_client *client, uint32_t stream, const memtap_filter *filter, memtap_cursor **cursor);
/* Right before the entry of that index; UINT64_MAX: behind the last one. */
int memtap_cursor_seek(memtap_cursor *cursor, uint64_t index);
/* The next or the previous entry that matches, which the cursor goes past. */
int memtap_cursor_next(memtap_cursor *cursor, memtap_entry *entry);
int memtap_cursor_previous(memtap_cursor *cursor, memtap_entry *entry);
void memtap_cursor_close(memtap_cursor *cursor);

/* Several streams as one, by their growing field of that name, such as "cycle"; by their indices where it is null. Of equal entries that
 * of the stream that is named first comes first. */
int memtap_multiplexer_open(memtap_client *client, const uint32_t *streams, size_t count, const char *field,
                            const memtap_filter *filter, memtap_multiplexer **multiplexer);
int memtap_multiplexer_next(memtap_multiplexer *multiplexer, memtap_entry *entry);
void memtap_multiplexer_close(memtap_multiplexer *multiplexer);

#ifdef __cplusplus
}
#endif
#endif
