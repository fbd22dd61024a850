"""What the Python clients of the end-to-end test have in common: topics, sizes, values, message ids.

The topics are those that Clients.java creates.
"""

import json
import random

MIX, MIX_PARTITIONS = "mix", 4
WIDE, WIDE_PARTITIONS = "wide.topic_with-dash-3", 12
STAMPED = "stamped"
TIGHT = "tight"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
ACKS = [0, 1, "all"]
SIZES = [1, 10, 100, 1_000, 10_000]


class Messages:
    """Numbers the records of one client; every record carries its number in the header `mid`."""

    def __init__(self, client):
        self.client = client
        self.sent = 0
        self.random = random.Random(client)

    def next(self, size):
        """A key, a value of `size` bytes (half of it random) and the headers."""
        number, self.sent = self.sent, self.sent + 1
        noise = self.random.randbytes((size + 1) // 2)
        key = None if number % 3 == 0 else b"key-%d" % (number % 7)
        headers = [("other", b"x" * (number % 5)), ("mid", f"{self.client}-{number}".encode())]
        return key, noise + bytes(size - len(noise)), headers

    def round(self, number):
        """One record for every partition of both topics: (topic, partition, (key, value, headers))."""
        for partition in range(MIX_PARTITIONS):
            yield MIX, partition, self.next(SIZES[number % len(SIZES)])
        for partition in range(WIDE_PARTITIONS):
            yield WIDE, partition, self.next(SIZES[(number + partition) % len(SIZES)])

    def report(self, read):
        print(json.dumps({"client": self.client, "sent": self.sent, "read": read}), flush=True)
