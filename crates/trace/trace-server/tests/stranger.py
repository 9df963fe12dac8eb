#!/usr/bin/env python3
"""A client of the trace store, written from docs/protocol.md and docs/format.md alone, for the tests.

    stranger.py URL TOKEN NAME COUNT

Records COUNT entries of a type of its own, and reads them back: while they are being written, and from the closed trace, by index, by
cycle and with a filter. URL is unix:PATH or tcp:HOST:PORT, TOKEN is empty for the former. Needs the program zstd for answers over TCP
that are compressed.
"""

import hashlib
import mmap
import socket
import ssl
import struct
import subprocess
import sys

NONE32, NONE64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
TYPE = bytes(range(16))
ENTRY = struct.Struct("<QQII")  # cycle, address, number, and four bytes that no field covers


class Refused(Exception):
    def __init__(self, reason, text):
        super().__init__(f"refused, reason {reason}: {text}")
        self.reason = reason


def string(text):
    data = text.encode()
    return struct.pack("<H", len(data)) + data


class Reader:
    """Takes an answer's body apart."""

    def __init__(self, body):
        self.body, self.at = body, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.body, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def bytes(self, length):
        data = self.body[self.at : self.at + length]
        assert len(data) == length
        self.at += length
        return data

    def string(self):
        return self.bytes(self.take("H")).decode()

    def done(self):
        assert self.at == len(self.body), "the answer is longer than the protocol says"


class Channel:
    def __init__(self, url, token):
        kind, rest = url.split(":", 1)
        if kind == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(rest)
        else:
            host, port = rest.rsplit(":", 1)
            _, _, certificate = token.split(":")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            plain = socket.create_connection((host.strip("[]"), int(port)))
            self.socket = context.wrap_socket(plain)
            shown = self.socket.getpeercert(binary_form=True)
            assert hashlib.sha256(shown).hexdigest() == certificate, "another server"
        self.shares, self.number, self.descriptors = kind == "unix", 0, []
        hello = self.ask(1, b"mtSERVE\n" + struct.pack("<HH", 1, 0) + string(token) + string("stranger"))
        assert hello.take("HH")[0] == 1
        hello.string()
        hello.done()

    def receive(self, length):
        data = b""
        while len(data) < length:
            if self.shares:
                part, descriptors, _, _ = socket.recv_fds(self.socket, length - len(data), 1)
                self.descriptors += descriptors
            else:
                part = self.socket.recv(length - len(data))
            if not part:
                raise EOFError("the server closed the channel")
            data += part
        return data

    def send(self, code, body):
        self.number += 1
        self.socket.sendall(struct.pack("<IHHII", len(body), code, 0, self.number, 0) + body)
        return self.number

    def answer(self, code, number):
        length, found, zero, repeated, also = struct.unpack("<IHHII", self.receive(16))
        body = Reader(self.receive(length))
        assert (zero, also) == (0, 0) and repeated == number
        if found == 0xFFFF:
            raise Refused(body.take("H"), body.string())
        assert found == code | 0x8000, hex(found)
        return body

    def ask(self, code, body=b""):
        return self.answer(code, self.send(code, body))

    def memory(self, shared, length):
        assert shared == (1 if self.shares else 0)
        return mmap.mmap(self.descriptors.pop(), length) if shared else None


FIELDS = [(0, 8, 1, "cycle"), (8, 8, 2, "place"), (16, 4, 0, "number")]


def description(name, fields=FIELDS):
    head = TYPE + struct.pack("<IIIIIHH", NONE32, ENTRY.size, 0, NONE32, NONE32, len(fields), 1)
    body = b"".join(struct.pack("<HBB", at, size, role) + string(field) for at, size, role, field in fields)
    return head + string(name) + string("stranger's entry") + body + string("written by") + string("python")


def entry(number):
    return ENTRY.pack(number * 3, 0x1000 + number % 64 * 8, number, number % 5)


def write(channel, stream, count):
    """Fills the buffers one after the other, and goes on while there is another free one."""
    opened = channel.ask(11, struct.pack("<IIIB", stream, 4096, 4, 0))
    writer, size, buffers, width, shared = opened.take("IIIIB")
    opened.done()
    assert width == ENTRY.size and buffers >= 2 and size >= 4096
    at = (64 * buffers + 4095) // 4096 * 4096
    memory = channel.memory(shared, at + buffers * size)
    full, waiting, buffer = size // width, [], 0
    for first in range(0, count, full):
        if len(waiting) == buffers:
            number, expected = waiting.pop(0)
            back = channel.answer(12, number)
            assert back.take("II") == (writer, expected)
        data = b"".join(entry(number) for number in range(first, min(first + full, count)))
        if memory is not None:
            memory[at + buffer * size : at + buffer * size + len(data)] = data
            memory[64 * buffer : 64 * buffer + 8] = struct.pack("<Q", len(data))
            data_sent = b""
        else:
            data_sent = data
        waiting.append((channel.send(12, struct.pack("<III", writer, buffer, len(data)) + data_sent), buffer))
        buffer = (buffer + 1) % buffers
    for number, _ in waiting:
        channel.answer(12, number)
    channel.ask(13, struct.pack("<I", writer))


def filtered(cycles=None):
    flags, (start, end) = (1, cycles) if cycles else (0, (0, 0))
    return struct.pack("<BQQQQIHH", flags, start, end, 0, 0, NONE32, 0, 0)


def read(channel, stream, index=0, condition=filtered()):
    """All entries from an index on, each with its index."""
    opened = channel.ask(15, struct.pack("<II", stream, 1 << 16) + condition)
    reader, size, width, shared = opened.take("IIIB")
    opened.done()
    assert width == ENTRY.size
    memory, found = channel.memory(shared, size), []
    while True:
        block = channel.ask(16, struct.pack("<IQI", reader, index, NONE32))
        first, count, after, end, lost, flags, length = block.take("QIQQQBI")
        assert lost == 0
        data = memory[:length] if memory is not None else block.bytes(length)
        block.done()
        if flags & 2:
            data = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, check=True).stdout
        places = struct.unpack_from(f"<{count}I", data, count * width) if flags & 1 else range(count)
        for number, place in enumerate(places):
            found.append((first + place, data[number * width : (number + 1) * width]))
        index = after
        if index >= end:
            channel.ask(18, struct.pack("<I", reader))
            return found


def main(url, token, name, count):
    channel = Channel(url, token)
    session = channel.ask(2, string("python")).take("Q")
    channel.ask(6, string(name) + struct.pack("<BBI", 0, 1, 1000))
    stream = channel.ask(9, description("samples")).take("I")
    channel.ask(19, string("program") + string("stranger.py"))
    write(channel, stream, count)
    channel.ask(14, b"\0")
    expected = [(number, entry(number)) for number in range(count)]
    assert read(channel, stream) == expected, "while it is being written"
    assert channel.ask(8).take("Q") > 0
    channel.ask(5)

    # Somebody else comes later.
    channel = Channel(url, token)
    channel.ask(2, string("python again"))
    channel.ask(7, string(name) + b"\0")
    streams = channel.ask(10)
    for _ in range(streams.take("I")):
        number, entries = streams.take("IQ")
        streams.take("QQQQQQ")
        told = streams.bytes(streams.take("I"))
        if told[:16] == TYPE:
            assert (number, entries) == (stream, count)
            # But for the encoder, which the server chose, and with what no field covered.
            mine = description("samples", FIELDS + [(20, 4, 0, "unnamed20")])
            assert told[:16] + told[20:] == mine[:16] + mine[20:], (told, mine)
    streams.done()
    assert read(channel, stream, count // 2) == expected[count // 2 :], "from an index on"
    middle = count // 3 * 3
    assert channel.ask(17, struct.pack("<IBQ", stream, 1, middle - 1)).take("Q") == middle // 3
    chosen = [(number, one) for number, one in expected if middle <= number * 3 < middle + 300]
    assert read(channel, stream, 0, filtered((middle, middle + 300))) == chosen, "with a filter"
    try:
        channel.ask(9, description("more"))
        raise AssertionError("a trace that is read was written to")
    except Refused as refusal:
        assert refusal.reason == 7
    listed = channel.ask(4)
    sessions = []
    for _ in range(listed.take("I")):
        number, _, mode = listed.take("QIB")
        sessions.append((listed.string(), mode, listed.string()))
        assert number != session
    listed.done()
    assert ("python again", 2, name) in sessions, sessions
    channel.ask(5)


main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
