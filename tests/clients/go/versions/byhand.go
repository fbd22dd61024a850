package main

import (
	"hash/crc32"
	"time"

	"brokerscope/e2e/clients/mix"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newer is a produce request of a version that franz-go does not know: versions 9 to 12 have the same bytes
// (ProduceRequest.json).
type newer struct{ *kmsg.ProduceRequest }

func (newer) MaxVersion() int16 { return newestProduce }

// byHand returns one request with a batch per partition.
func byHand(records []mix.Record) *kmsg.ProduceRequest {
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = mix.Old
	for partition := int32(0); partition < mix.OldPartitions; partition++ {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = partition, batch(records, partition)
		topic.Partitions = append(topic.Partitions, part)
	}
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = 1, 10_000
	request.Topics = []kmsg.ProduceRequestTopic{topic}
	return request
}

func batch(all []mix.Record, partition int32) []byte {
	var records []byte
	var count int32
	for _, record := range all {
		if record.Partition == partition {
			records = append(records, encoded(kmsg.Record{OffsetDelta: count, Key: record.Key, Value: record.Value})...)
			count++
		}
	}
	now := time.Now().UnixMilli()
	whole := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: count - 1, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: count, Records: records,
	}
	// Bytes before the length's end, before the CRC (offset, length, epoch, magic), and of the CRC.
	const beforeLength, beforeCRC, crc = 12, 17, 4
	bytes := whole.AppendTo(nil)
	whole.Length = int32(len(bytes) - beforeLength)
	whole.CRC = int32(crc32.Checksum(bytes[beforeCRC+crc:], crc32.MakeTable(crc32.Castagnoli)))
	return whole.AppendTo(nil)
}

func encoded(record kmsg.Record) []byte {
	// A record's length excludes the length field, which takes one byte while it is 0.
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	return record.AppendTo(nil)
}
