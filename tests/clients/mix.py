"""Shared code of the Python clients in the end-to-end test: topics, sizes, values, message ids.

Clients.java creates the topics.
"""

import json
import random
import time

MIX, MIX_PARTITIONS = "mix", 4
WIDE, WIDE_PARTITIONS = "wide.topic_with-dash-3", 12
STAMPED = "stamped"
TIGHT = "tight"
# Written in old formats, and read by consumers that know only those.
OLD, OLD_PARTITIONS = "old", 4
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
ACKS = [0, 1, "all"]
SIZES = [1, 10, 100, 1_000, 10_000]


class Messages:
    """Numbers the records of one client; every record carries its number in the header `mid`."""

    def __init__(self, client):
        self.client = client
        self.sent = 0
        self.unnamed = 0
        self.random = random.Random(client)

    def next(self, size):
        """A key, a value of `size` bytes (half of it random) and the headers."""
        number, self.sent = self.sent, self.sent + 1
        headers = [("other", b"x" * (number % 5)), ("mid", f"{self.client}-{number}".encode())]
        return *self.record(number, size), headers

    def record(self, number, size):
        noise = self.random.randbytes((size + 1) // 2)
        key = None if number % 3 == 0 else b"key-%d" % (number % 7)
        return key, noise + bytes(size - len(noise))

    def round(self, number):
        """One record per partition of both topics: (topic, partition, (key, value, headers))."""
        for partition in range(MIX_PARTITIONS):
            yield MIX, partition, self.next(SIZES[number % len(SIZES)])
        for partition in range(WIDE_PARTITIONS):
            yield WIDE, partition, self.next(SIZES[(number + partition) % len(SIZES)])

    def old_round(self, number):
        """Records for the topic OLD without headers, which message sets lack: (partition, key, value)."""
        for at in range(3 * OLD_PARTITIONS):
            key, value = self.record(self.unnamed, SIZES[(number + at) % 4])
            self.unnamed += 1
            yield at % OLD_PARTITIONS, key, value

    def report(self, read):
        report = {"client": self.client, "sent": self.sent, "unnamed": self.unnamed, "read": read}
        print(json.dumps(report), flush=True)


def until(read, enough):
    """Calls `read` until it has returned `enough` records, for at most 8 seconds."""
    count, end = 0, time.monotonic() + 8
    while count < enough and time.monotonic() < end:
        count += read()
    return count
