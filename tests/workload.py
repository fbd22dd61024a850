"""A process that carries out orders on files, one order per line, and answers each with one line.

Started with the command line of a broker (`java workload.py kafka.Kafka PROPERTIES`), so that brokerscope treats it
as one. Every order is one system call, except `repeat` and orders that prepare something. The answer is the return value
of the call, or `error ERRNO`. It opens no other file after it has printed `ready`.
"""

import ctypes
import mmap
import os
import socket
import sys
import threading
import time

FLAGS = {
    "create": os.O_RDWR | os.O_CREAT,
    "append": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "read": os.O_RDONLY,
    "direct": os.O_RDWR | os.O_CREAT | os.O_DIRECT,
}
# O_DIRECT needs aligned memory; anonymous mappings are page-aligned.
MEMORY = mmap.mmap(-1, 8 << 20)
MEMORY.write(b"\x5a" * (8 << 20))
BUFFER = memoryview(MEMORY)

files, maps, crowded = {}, {}, []
out_socket, in_socket = socket.socketpair()
out_pipe, in_pipe = os.pipe()


def drain(read):
    while read():
        pass


def piece(size, at=0):
    return BUFFER[at:at + size]


def repeat(count, pause_ms, *order):
    """Returns the result of the last repetition and the median duration in milliseconds."""
    took = []
    for _ in range(int(count)):
        begun = time.monotonic()
        result = carry_out(order)
        took.append(time.monotonic() - begun)
        time.sleep(int(pause_ms) / 1e3)
    return f"{result} {sorted(took)[len(took) // 2] * 1e3:.3f}"


def map_file(handle, size):
    maps[handle] = mmap.mmap(files[handle], int(size))
    # MADV_RANDOM: a fault reads only its own page.
    maps[handle].madvise(mmap.MADV_RANDOM)
    return 0


def store(handle, offset):
    maps[handle][int(offset)] = 7
    return 1


def touch(handle, offset):
    return maps[handle][int(offset)]


def open_file(handle, path, how):
    files[handle] = os.open(path, FLAGS[how], 0o644)
    return files[handle]


def crowd(backlog, count):
    """Connects `count` times to a listener that accepts nothing. Returns `count`."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=int(backlog))
    for _ in range(int(count)):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(listener.getsockname())
        crowded.append(client)
    crowded.append(listener)
    return count


def ring():
    """io_uring_setup(2), which the standard library lacks: 425 on every architecture."""
    parameters = (ctypes.c_char * 120)()
    made = ctypes.CDLL(None, use_errno=True).syscall(425, 1, parameters)
    return f"error {ctypes.get_errno()}" if made < 0 else made


ORDERS = {
    "open": open_file,
    "close": lambda h: os.close(files.pop(h)),
    "write": lambda h, n: os.write(files[h], piece(int(n))),
    "pwrite": lambda h, at, n: os.pwrite(files[h], piece(int(n)), int(at)),
    "writev": lambda h, *n: os.writev(files[h], [piece(int(one)) for one in n]),
    "pwritev": lambda h, at, *n: os.pwritev(files[h], [piece(int(one)) for one in n], int(at)),
    "read": lambda h, n: len(os.read(files[h], int(n))),
    "pread": lambda h, at, n: len(os.pread(files[h], int(n), int(at))),
    "readv": lambda h, *n: os.readv(files[h], [bytearray(int(one)) for one in n]),
    "preadv": lambda h, at, *n: os.preadv(files[h], [bytearray(int(one)) for one in n], int(at)),
    "sendfile": lambda h, at, n: os.sendfile(out_socket.fileno(), files[h], int(at), int(n)),
    "splice": lambda h, at, n: os.splice(files[h], in_pipe, int(n), offset_src=int(at)),
    "copy": lambda h, at, to, n: os.copy_file_range(files[h], files[to], int(n), offset_src=int(at), offset_dst=0),
    "fsync": lambda h: os.fsync(files[h]),
    "fdatasync": lambda h: os.fdatasync(files[h]),
    "truncate": lambda h, n: os.ftruncate(files[h], int(n)),
    "allocate": lambda h, at, n: os.posix_fallocate(files[h], int(at), int(n)),
    "rename": os.rename,
    "unlink": os.unlink,
    "map": map_file,
    "store": store,
    "touch": touch,
    "msync": lambda h: maps[h].flush(),
    "unmap": lambda h: maps.pop(h).close(),
    "forget": lambda h: os.posix_fadvise(files[h], 0, 0, os.POSIX_FADV_DONTNEED),
    # To a socket, so brokerscope must not report it as a file operation.
    "say": lambda n: out_socket.send(piece(int(n))),
    "seek": lambda h, at: os.lseek(files[h], int(at), os.SEEK_SET),
    "crowd": crowd,
    "ring": ring,
    "sleep": lambda ms: time.sleep(int(ms) / 1e3),
    "repeat": repeat,
}


def carry_out(order):
    try:
        return ORDERS[order[0]](*order[1:])
    except OSError as error:
        return f"error {error.errno}"


def main():
    for read in (lambda: in_socket.recv(65536), lambda: os.read(out_pipe, 65536)):
        threading.Thread(target=drain, args=(read,), daemon=True).start()
    print(f"ready {threading.get_native_id()}", flush=True)
    for line in sys.stdin:
        print(carry_out(line.split()), flush=True)
    # Does not wait for the draining threads.
    os._exit(0)


main()
