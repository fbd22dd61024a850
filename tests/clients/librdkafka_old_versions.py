"""librdkafka configured for brokers before 0.11: message sets and the first versions of Produce and Fetch.
Checks nothing.

python librdkafka_old_versions.py BOOTSTRAP NAME
"""

import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

import mix

BOOTSTRAP, NAME = sys.argv[1:3]
messages = mix.Messages(NAME)
# Before 0.10, lz4 frames have their own header checksum (KIP-57); zstd came with 2.1.
CODECS = ["none", "gzip", "snappy", "lz4"]
# From 0.10 on, librdkafka asks the broker for its versions, so these are older.
VERSIONS = ["0.8.2", "0.9.0"]


def pinned(version, client_id, **config):
    options = {key.replace("_", "."): value for key, value in config.items()}
    return {"bootstrap.servers": BOOTSTRAP, "client.id": f"{NAME}-{version}-{client_id}",
            "api.version.request": False, "broker.version.fallback": version, **options}


def write(version, codec, acks):
    to = Producer(pinned(version, f"{codec}-{acks}", compression_codec=codec, acks=acks, linger_ms=3))
    for number in range(2):
        for partition, key, value in messages.old_round(number):
            to.produce(mix.OLD, value=value, key=key, partition=partition)
        to.flush(30)


def read(version):
    consumer = Consumer(pinned(version, "reader", group_id=f"{NAME}-group", enable_auto_commit=False,
                               fetch_wait_max_ms=100))
    consumer.assign([TopicPartition(mix.OLD, p, OFFSET_BEGINNING) for p in range(mix.OLD_PARTITIONS)])
    count = mix.until(lambda: len(consumer.consume(100, timeout=0.2)), enough=200)
    consumer.close()
    return count


for version in VERSIONS:
    for codec in CODECS:
        for acks in mix.ACKS:
            write(version, codec, acks)
messages.report(sum(read(version) for version in VERSIONS))
