"""Keeps connections to a broker of this machine open, and asks one after the other for its versions.

    connected.py PORT SECONDS CONNECTIONS RATE

From addresses in 127.0.0.0/8. Once all are open it asks for so long, so many times a second at most, and prints how many answers came.
"""
import resource
import socket
import struct
import sys
import time

CLIENT = b"one-of-many"
CONNECTIONS_OF_AN_ADDRESS = 20_000
DESCRIPTORS = 100


def connect(port: int, number: int) -> socket.socket:
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # The port is chosen as it connects: one that is bound to nobody else's connection (IP_BIND_ADDRESS_NO_PORT).
    client.setsockopt(socket.IPPROTO_IP, 24, 1)
    client.bind((f"127.0.1.{1 + number // CONNECTIONS_OF_AN_ADDRESS}", 0))
    client.connect(("127.0.0.1", port))
    return client


def ask(client: socket.socket, correlation_id: int) -> None:
    """ApiVersions v0."""
    body = struct.pack(">hhih", 18, 0, correlation_id, len(CLIENT)) + CLIENT
    client.sendall(struct.pack(">i", len(body)) + body)
    answer = client.recv(1 << 16)
    while len(answer) < 4 or len(answer) < 4 + struct.unpack(">i", answer[:4])[0]:
        more = client.recv(1 << 16)
        if not more:
            raise ConnectionError(f"connection {correlation_id} was closed")
        answer += more


def main() -> None:
    port, seconds, count, rate = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + DESCRIPTORS, count + DESCRIPTORS))
    clients = [connect(port, number) for number in range(count)]
    asked, begun = 0, time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        if asked > rate * passed:
            time.sleep(0.001)
            continue
        ask(clients[asked % count], asked)
        asked += 1
    print(asked)


main()
