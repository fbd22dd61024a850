"""librdkafka's part of the end-to-end test, through confluent-kafka. Checks nothing.

python librdkafka_client.py BOOTSTRAP NAME
"""

import sys

from confluent_kafka import Consumer, KafkaError, Producer

import mix

BOOTSTRAP, NAME = sys.argv[1:3]
messages = mix.Messages(NAME)


def producer(name, **config):
    options = {key.replace("_", "."): value for key, value in config.items()}
    return Producer({"bootstrap.servers": BOOTSTRAP, "client.id": f"{NAME}-{name}", **options})


def produce(to, topic, partition, record, on_delivery=None):
    key, value, headers = record
    to.produce(topic, value=value, key=key, partition=partition, headers=headers, on_delivery=on_delivery)
    to.poll(0)


def rounds(to, count):
    for number in range(count):
        for topic, partition, record in messages.round(number):
            produce(to, topic, partition, record)
        if number % 3 == 2:
            to.flush(30)
    to.flush(30)


def every_codec_and_acks():
    for codec in mix.CODECS:
        for acks in mix.ACKS:
            to = producer(f"{codec}-{acks}", compression_codec=codec, acks=acks, linger_ms=3,
                          enable_idempotence=acks == "all")
            rounds(to, 6)


def one_at_a_time():
    to = producer("one-at-a-time", linger_ms=0, batch_num_messages=1, acks=1)
    for number in range(150):
        produce(to, mix.MIX, number % mix.MIX_PARTITIONS, messages.next(mix.SIZES[number % 4]))
    to.flush(30)


def big():
    to = producer("big", linger_ms=200, acks="all", message_max_bytes=1_000_000)
    for number in range(8):
        produce(to, mix.WIDE, number % mix.WIDE_PARTITIONS, messages.next(200 * 1024))
    to.flush(60)


def transactions():
    to = producer("transactional", transactional_id=f"{NAME}-transaction", linger_ms=3, compression_codec="zstd")
    to.init_transactions(30)
    for number in range(4):
        to.begin_transaction()
        rounds(to, 1)
        if number % 2 == 0:
            to.commit_transaction(30)
        else:
            to.abort_transaction(30)


def rewritten_and_refused():
    to = producer("rewritten", acks=1)
    errors = []
    produce(to, mix.STAMPED, 0, messages.next(100))
    produce(to, mix.TIGHT, 0, messages.next(5_000), on_delivery=lambda error, _: errors.append(error))
    to.flush(30)
    assert errors[0] is not None and errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE, errors


def consume():
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": f"{NAME}-group",
                         "client.id": f"{NAME}-consumer", "auto.offset.reset": "earliest",
                         "fetch.wait.max.ms": 100})
    consumer.subscribe([mix.MIX])
    read = mix.until(lambda: len(consumer.consume(100, timeout=0.2)), enough=300)
    if read:
        consumer.commit(asynchronous=False)
    consumer.close()
    return read


every_codec_and_acks()
one_at_a_time()
big()
transactions()
rewritten_and_refused()
messages.report(consume())
