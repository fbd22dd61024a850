"""kafka-python configured for old brokers: every API version that it knows, back to message sets.
Checks nothing.

python kafka_python_old_versions.py BOOTSTRAP NAME
"""

import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import mix

BOOTSTRAP, NAME = sys.argv[1:3]
messages = mix.Messages(NAME)
CODECS = ["none", "gzip", "snappy", "lz4"]
VERSIONS = [(0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1), (0, 11), (1, 0), (2, 0), (2, 3)]


def client_id(version, name):
    return f"{NAME}-{'.'.join(map(str, version))}-{name}"


def write(version, codec, acks):
    to = KafkaProducer(bootstrap_servers=BOOTSTRAP, client_id=client_id(version, f"{codec}-{acks}"),
                       api_version=version, compression_type=None if codec == "none" else codec, acks=acks,
                       linger_ms=3, enable_idempotence=False)
    for number in range(2):
        for partition, key, value in messages.old_round(number):
            to.send(mix.OLD, value=value, key=key, partition=partition)
        to.flush(30)
    to.close()


def read(version):
    consumer = KafkaConsumer(bootstrap_servers=BOOTSTRAP, client_id=client_id(version, "reader"), api_version=version,
                             group_id=None, auto_offset_reset="earliest", fetch_max_wait_ms=100)
    consumer.assign([TopicPartition(mix.OLD, p) for p in range(mix.OLD_PARTITIONS)])
    count = mix.until(lambda: sum(map(len, consumer.poll(timeout_ms=200).values())), enough=200)
    consumer.close()
    return count


for version in VERSIONS:
    for codec in CODECS:
        for acks in mix.ACKS:
            write(version, codec, acks)
messages.report(sum(read(version) for version in VERSIONS))
