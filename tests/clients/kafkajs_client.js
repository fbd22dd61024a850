// kafkajs's part of the end-to-end test: the codecs that it implements in JavaScript, acks, transactions, a consumer.
// Checks nothing. Clients.java creates the topics.
//
// node kafkajs_client.js BOOTSTRAP

"use strict";

const crypto = require("node:crypto");
const { createRequire } = require("node:module");
// The modules are installed in a cache directory, not next to this file.
const load = process.env.KAFKAJS_HOME ? createRequire(`${process.env.KAFKAJS_HOME}/`) : require;
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = load("kafkajs");
CompressionCodecs[CompressionTypes.Snappy] = load("kafkajs-snappy");

const BOOTSTRAP = process.argv[2];
const MIX = "mix";
const WIDE = "wide.topic_with-dash-3";
const STAMPED = "stamped";
const SIZES = [1, 10, 100, 1000, 10000];
let sent = 0;

const kafka = (name) => new Kafka({ clientId: `kafkajs-${name}`, brokers: [BOOTSTRAP], logLevel: logLevel.NOTHING });

function message(partition, size) {
  const number = sent++;
  const value = Buffer.alloc(size);
  crypto.randomBytes(Math.ceil(size / 2)).copy(value);
  return { partition, key: number % 3 ? `key-${number % 7}` : null, value, headers: { mid: `kafkajs-${number}` } };
}

function round(number) {
  const partitions = (count, size) => Array.from({ length: count }, (_, p) => message(p, size(p)));
  return [
    { topic: MIX, messages: partitions(4, () => SIZES[number % SIZES.length]) },
    { topic: WIDE, messages: partitions(12, (p) => SIZES[(number + p) % SIZES.length]) },
  ];
}

async function everyCodecAndAcks() {
  for (const [name, compression] of Object.entries({ none: 0, gzip: 1, snappy: 2 })) {
    for (const acks of [0, 1, -1]) {
      const producer = kafka(`${name}-${acks}`).producer({ idempotent: acks === -1, maxInFlightRequests: 5 });
      await producer.connect();
      await Promise.all(
        Array.from({ length: 3 }, (_, number) => producer.sendBatch({ topicMessages: round(number), acks, compression })),
      );
      await producer.disconnect();
    }
  }
}

async function transactions() {
  const producer = kafka("transactional").producer({ transactionalId: "kafkajs-transaction", idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (let number = 0; number < 4; number++) {
    const transaction = await producer.transaction();
    await transaction.sendBatch({ topicMessages: round(number) });
    await (number % 2 ? transaction.abort() : transaction.commit());
  }
  await producer.disconnect();
}

/** Reads the topic without LZ4 and Zstandard, which kafkajs lacks. */
async function consume() {
  const consumer = kafka("consumer").consumer({ groupId: "kafkajs-group", maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topics: [STAMPED], fromBeginning: true });
  let read = 0;
  await new Promise((resolve, reject) => {
    setTimeout(resolve, 2000);
    // The library itself retries after a retriable crash.
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error));
    consumer.run({ eachMessage: async () => void read++ }).catch(reject);
  });
  await consumer.disconnect();
  return read;
}

(async () => {
  await everyCodecAndAcks();
  await transactions();
  const read = await consume();
  console.log(JSON.stringify({ client: "kafkajs", sent, read }));
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
