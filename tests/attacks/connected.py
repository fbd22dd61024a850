"""Keeps connections to a broker on this machine open, and sends an ApiVersions request on each in turn.

    connected.py PORT SECONDS CONNECTIONS RATE

Connects from addresses in 127.0.0.0/8. Once all connections are open, sends at most RATE requests per second for SECONDS, and
prints the number of responses.
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
    # IP_BIND_ADDRESS_NO_PORT: connect() chooses the port, so that connections to other addresses can share it.
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
