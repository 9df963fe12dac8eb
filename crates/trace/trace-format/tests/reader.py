#!/usr/bin/env python3
"""Reads a trace by docs/format.md alone: an independent reader, for the tests.

    reader.py FILE             lists the streams: number and name
    reader.py FILE STREAM...   writes the entries of those streams, by number or name, to standard output

Knows versions 1 to 5, and the encoders raw, columns, generic and vpc. Does not verify checksums; needs the program zstd.
"""

import lzma
import struct
import subprocess
import sys

M64 = (1 << 64) - 1


def payload(coding, stored, length):
    if coding == 0:
        return stored
    if coding == 1:
        return subprocess.run(["zstd", "-dcq"], input=stored, stdout=subprocess.PIPE, check=True).stdout
    if coding == 2:
        alone = stored[8:13] + stored[:8] + stored[13:]
        return lzma.decompress(alone, lzma.FORMAT_ALONE) if length else b""
    raise ValueError(f"unknown coding {coding}")


def decoded(attributes):
    payloads = {code: payload(*stored) for code, stored in attributes.items()}
    assert all(len(payloads[code]) == attributes[code][2] for code in payloads)
    return payloads


def frames(data):
    """Every frame: kind, stream, sequence, entries, attributes as they are stored."""
    assert data[:8] == b"\x89memtap\n"
    assert struct.unpack_from("<H", data, 8)[0] in (1, 2, 3, 4, 5)
    at = 64
    while at < len(data):
        assert data[at : at + 8] == b"mtFRAME\x1a", at
        kind, count, stream, sequence, total, _, entries = struct.unpack_from("<HHIQQQQ", data, at + 16)
        attributes, where = {}, at + 160 + 32 * count
        for number in range(count):
            code, coding, _, size, length, _ = struct.unpack_from("<HHIQQQ", data, at + 160 + 32 * number)
            attributes[code] = (coding, data[where : where + size], length)
            where += (size + 7) // 8 * 8
        yield kind, stream, sequence, entries, attributes
        at += total


# What versions 1 and 2 called streams, by the GUID's fourth byte: the former name and the present one.
FORMER = {7: ("blocks", "block-operations"), 47: ("guest-flow", "flow"), 48: ("guest-blocks", "basic-blocks"),
          49: ("syncs", "checkpoints")}
OWN = bytes.fromhex("6d656d746170000000000001")


class Description:
    def __init__(self, data):
        self.guid = data[:16]
        self.encoder, self.width = struct.unpack_from("<II", data, 16)
        fields, _ = struct.unpack_from("<HH", data, 36)
        at, names = 40, []
        for _ in range(2):
            length = struct.unpack_from("<H", data, at)[0]
            names.append(data[at + 2 : at + 2 + length].decode())
            at += 2 + length
        self.name = names[0]
        former, present = FORMER.get(self.guid[3], (None, None))
        if self.guid[:3] == b"mt\0" and self.guid[4:] == OWN and self.name == former:
            self.name = present
        self.fields = []
        for _ in range(fields):
            offset, size, role, name = struct.unpack_from("<HBBH", data, at)
            self.fields.append((offset, size, role))
            at += 6 + name


def varints(column):
    at = 0
    while at < len(column):
        value = shift = 0
        while True:
            byte = column[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield value


def uncovered(description, fields):
    covered = {place for offset, size, _ in fields for place in range(offset, offset + size)}
    return [place for place in range(description.width) if place not in covered]


def put_between(out, description, count, places, between):
    for i in range(count):
        for n, place in enumerate(places):
            out[i * description.width + place] = between[i * len(places) + n]


def columns(description, count, attributes):
    data, at = attributes[0], 0
    out = bytearray(description.width * count)
    for offset, size, role in description.fields:
        length = struct.unpack_from("<Q", data, at)[0]
        column, at = data[at + 8 : at + 8 + length], at + 8 + length
        if role == 0:
            values = [sum(column[plane * count + i] << 8 * plane for plane in range(size)) for i in range(count)]
        else:
            last, values = 0, []
            for code in varints(column):
                last = (last + ((code >> 1) ^ -(code & 1))) & M64
                values.append(last & ((1 << 8 * size) - 1))
        assert len(values) == count
        for i, value in enumerate(values):
            place = i * description.width + offset
            out[place : place + size] = value.to_bytes(size, "little")
    assert at == len(data)
    if 32 in attributes:
        put_between(out, description, count, uncovered(description, description.fields), attributes[32])
    return bytes(out)


def generic(description, count, attributes):
    forms = attributes[32]
    out = bytearray(description.width * count)
    for number, (offset, size, _) in enumerate(description.fields[:60]):
        column, form = attributes[33 + number], forms[number]
        if form == 3:
            values = [int.from_bytes(column[i * size : i * size + size], "little") for i in range(count)]
        elif form == 1:
            values = list(varints(column))
        else:
            values = [sum(column[plane * count + i] << 8 * plane for plane in range(size)) for i in range(count)]
        if form in (1, 2):
            last, codes, values = 0, values, []
            for code in codes:
                last = (last + ((code >> 1) ^ -(code & 1))) & ((1 << 8 * size) - 1)
                values.append(last)
        assert len(values) == count
        for i, value in enumerate(values):
            at = i * description.width + offset
            out[at : at + size] = value.to_bytes(size, "little")
    between = attributes[33 + min(len(description.fields), 60)]
    put_between(out, description, count, uncovered(description, description.fields[:60]), between)
    return bytes(out)


def fold(value, bits):
    folded = 0
    while value:
        folded ^= value & 0xFFFFFFFF
        value >>= bits
    return folded & ((1 << bits) - 1)


def push(history, value, bits):
    h = fold(value, bits)
    history[2] = (history[1] << 1 ^ h) & 0xFFFFFFFF
    history[1] = (history[0] << 1 ^ h) & 0xFFFFFFFF
    history[0] = h


class Table:
    def __init__(self, bits, values=2):
        self.mask, self.first, self.lines = (1 << bits) - 1, list(range(values)), {}

    def line(self, key):
        return self.lines.get(key & self.mask, self.first)

    def push(self, key, value):
        line = self.line(key)
        if line[0] != value:
            self.lines[key & self.mask] = [value] + line[:-1]


class Global:
    miss = 4

    def __init__(self):
        self.history, self.short, self.long = [0, 0, 0], Table(17), Table(19)

    def predictions(self):
        return self.short.line(self.history[0]) + self.long.line(self.history[2])

    def update(self, value):
        self.short.push(self.history[0], value)
        self.long.push(self.history[2], value)
        push(self.history, value, 17)


class Value:
    miss = 10

    def __init__(self, bits):
        self.mask = (1 << bits) - 1
        self.strides, self.values = {}, {}
        self.short, self.long, self.context, self.last = Table(17), Table(19), Table(19), Table(16, 4)

    def predictions(self, ip):
        row = ip & 0xFFFF
        history, last = self.strides.get(row, [0, 0, 0]), self.last.line(row)
        strides = self.short.line(history[0]) + self.long.line(history[2])
        sums = [(last[0] + stride) & self.mask for stride in strides]
        return sums + last + self.context.line(self.values.get(row, 0))

    def update(self, ip, value):
        row = ip & 0xFFFF
        history = self.strides.setdefault(row, [0, 0, 0])
        stride = (value - self.last.line(row)[0]) & self.mask
        self.short.push(history[0], stride)
        self.long.push(history[2], stride)
        push(history, stride, 17)
        self.last.push(row, value)
        self.context.push(self.values.get(row, 0), value)
        self.values[row] = fold(value, 19)


# By the GUID's fourth byte: bits, data, memtap's own layout.
LAYOUTS = {6: (64, False, True), 16: (64, True, True), 32: (32, False, False), 33: (32, True, False),
           34: (64, False, False), 35: (64, True, False)}


def vpc(description, count, attributes):
    bits, data, own = LAYOUTS[description.guid[3]]
    width, fields = bits // 8, 4 if data else 3
    ids = [attributes[34 + field] for field in range(fields)]
    literals = [attributes[38 + field] for field in range(fields)]
    at = [0] * fields

    def literal(field):
        size = 8 if field == fields - 1 else width
        at[field] += size
        return int.from_bytes(literals[field][at[field] - size : at[field]], "little")

    cycle = struct.unpack_from("<Q", attributes[33])[0]
    shapes = attributes[33][8:]
    ips, steps, values = Global(), Global(), [Value(bits) for _ in range(fields - 2)]
    out = bytearray()
    for i in range(count):
        tag = struct.unpack_from("<H", attributes[32], 2 * i)[0]
        which = ids[0][i]
        ip = literal(0) if which == 4 else ips.predictions()[which]
        ips.update(ip)
        found = []
        for field, bank in enumerate(values, 1):
            which = ids[field][i]
            value = literal(field) if which == 10 else bank.predictions(ip)[which]
            bank.update(ip, value)
            found.append(value)
        which = ids[-1][i]
        step = literal(fields - 1) if which == 4 else (steps.predictions()[which] - ip) & M64
        steps.update((step + ip) & M64)
        cycle = (cycle + step) & M64
        if own:
            out += struct.pack("<QQQ", cycle, ip, found[0]) + shapes[8 * tag : 8 * tag + 8]
            out += b"".join(struct.pack("<Q", value) for value in found[1:])
        else:
            out += struct.pack("<Q", cycle & ((1 << 48) - 1) | tag << 48)
            out += b"".join(word.to_bytes(width, "little") for word in [ip] + found)
    return bytes(out)


def main():
    path, wanted = sys.argv[1], sys.argv[2:]
    with open(path, "rb") as file:
        data = file.read()
    descriptions, segments = {}, {}
    for kind, stream, sequence, entries, attributes in frames(data):
        if kind == 0:
            descriptions[stream] = Description(decoded(attributes)[1])
        elif kind == 1:
            segments.setdefault(stream, []).append((sequence, entries, attributes))
    if not wanted:
        for number, description in sorted(descriptions.items()):
            print(number, description.name)
        return
    named = [
        number
        for word in wanted
        for number, description in descriptions.items()
        if word in (str(number), description.name)
    ]
    for number in named:
        description = descriptions[number]
        for _, entries, attributes in sorted(segments.get(number, []), key=lambda segment: segment[0]):
            attributes = decoded(attributes)
            if description.encoder == 1:
                out = columns(description, entries, attributes)
            elif 0 in attributes:
                out = attributes[0]
            else:
                out = {5: generic, 6: vpc}[description.encoder](description, entries, attributes)
            assert len(out) == entries * description.width
            sys.stdout.buffer.write(out)


main()
