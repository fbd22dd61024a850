"""aiokafka's part of the end-to-end test. Checks nothing.

python aiokafka_client.py BOOTSTRAP NAME
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError

import mix

BOOTSTRAP, NAME = sys.argv[1:3]
messages = mix.Messages(NAME)


def producer(name, **config):
    return AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, client_id=f"{NAME}-{name}", **config)


def send(to, topic, partition, record):
    key, value, headers = record
    return to.send(topic, value=value, key=key, partition=partition, headers=headers)


async def rounds(to, count):
    for number in range(count):
        sends = [await send(to, topic, partition, record)
                 for topic, partition, record in messages.round(number)]
        await asyncio.gather(*sends)


async def every_codec_and_acks():
    for codec in mix.CODECS:
        for acks in mix.ACKS:
            to = producer(f"{codec}-{acks}", compression_type=None if codec == "none" else codec, acks=acks,
                          linger_ms=3, enable_idempotence=acks == "all")
            async with to:
                await rounds(to, 3)


async def one_at_a_time():
    async with producer("one-at-a-time", linger_ms=0, acks=1) as to:
        for number in range(60):
            await send(to, mix.MIX, number % mix.MIX_PARTITIONS, messages.next(mix.SIZES[number % 4]))
        await to.flush()


async def big():
    async with producer("big", linger_ms=200, acks=1, max_batch_size=900_000, max_request_size=8_000_000) as to:
        for number in range(8):
            await send(to, mix.WIDE, number % 4, messages.next(200 * 1024))
        await to.flush()


async def transactions():
    async with producer("transactional", transactional_id=f"{NAME}-transaction", linger_ms=3,
                        compression_type="snappy") as to:
        for number in range(4):
            await to.begin_transaction()
            await rounds(to, 1)
            if number % 2 == 0:
                await to.commit_transaction()
            else:
                await to.abort_transaction()


async def refused():
    async with producer("refused", acks=1) as to:
        try:
            await (await send(to, mix.TIGHT, 0, messages.next(5_000)))
            raise AssertionError("a record of 5000 bytes was taken")
        except MessageSizeTooLargeError:
            pass


async def consume():
    consumer = AIOKafkaConsumer(mix.MIX, bootstrap_servers=BOOTSTRAP, group_id=f"{NAME}-group",
                                client_id=f"{NAME}-consumer", auto_offset_reset="earliest",
                                fetch_max_wait_ms=100)
    read = 0
    async with consumer:
        loop = asyncio.get_running_loop()
        end = loop.time() + 8
        while read < 200 and loop.time() < end:
            read += sum(map(len, (await consumer.getmany(timeout_ms=200)).values()))
        if read:
            await consumer.commit()
    return read


async def main():
    await every_codec_and_acks()
    await one_at_a_time()
    await big()
    await transactions()
    await refused()
    messages.report(await consume())


asyncio.run(main())
