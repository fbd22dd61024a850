"""kafka-python's part of the end-to-end test. Checks nothing.

python kafka_python_client.py BOOTSTRAP NAME
"""

import sys

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import MessageSizeTooLargeError

import mix

BOOTSTRAP, NAME = sys.argv[1:3]
messages = mix.Messages(NAME)


def producer(name, **config):
    return KafkaProducer(bootstrap_servers=BOOTSTRAP, client_id=f"{NAME}-{name}", **config)


def send(to, topic, partition, record):
    key, value, headers = record
    return to.send(topic, value=value, key=key, partition=partition, headers=headers)


def rounds(to, count):
    for number in range(count):
        for topic, partition, record in messages.round(number):
            send(to, topic, partition, record)
        if number % 3 == 2:
            to.flush(30)
    to.flush(30)


def every_codec_and_acks():
    for codec in mix.CODECS:
        for acks in mix.ACKS:
            to = producer(f"{codec}-{acks}", compression_type=None if codec == "none" else codec, acks=acks,
                          linger_ms=3, enable_idempotence=acks == "all")
            rounds(to, 3)
            to.close()


def one_at_a_time():
    to = producer("one-at-a-time", linger_ms=0, batch_size=0, acks=1, enable_idempotence=False)
    for number in range(60):
        send(to, mix.MIX, number % mix.MIX_PARTITIONS, messages.next(mix.SIZES[number % 4]))
    to.close()


def big():
    to = producer("big", linger_ms=200, acks=1, enable_idempotence=False, batch_size=900_000,
                  max_request_size=8_000_000)
    for number in range(8):
        send(to, mix.WIDE, number % 4, messages.next(200 * 1024))
    to.close()


def transactions():
    to = producer("transactional", transactional_id=f"{NAME}-transaction", linger_ms=3,
                  compression_type="gzip")
    to.init_transactions()
    for number in range(4):
        to.begin_transaction()
        rounds(to, 1)
        if number % 2 == 0:
            to.commit_transaction()
        else:
            to.abort_transaction()
    to.close()


def refused():
    to = producer("refused", acks=1, enable_idempotence=False)
    try:
        send(to, mix.TIGHT, 0, messages.next(5_000)).get(timeout=30)
        raise AssertionError("a record of 5000 bytes was taken")
    except MessageSizeTooLargeError:
        pass
    to.close()


def consume():
    consumer = KafkaConsumer(mix.MIX, bootstrap_servers=BOOTSTRAP, group_id=f"{NAME}-group",
                             client_id=f"{NAME}-consumer", auto_offset_reset="earliest",
                             fetch_max_wait_ms=100)
    read = mix.until(lambda: sum(map(len, consumer.poll(timeout_ms=200).values())), enough=200)
    consumer.commit()
    consumer.close()
    return read


every_codec_and_acks()
one_at_a_time()
big()
transactions()
refused()
messages.report(consume())
