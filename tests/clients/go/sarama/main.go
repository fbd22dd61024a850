// Sarama's part of the end-to-end test: every codec, every acks, transactions, a consumer group; with `old` also
// every version back to message sets. Checks nothing.
//
// sarama BOOTSTRAP NAME [old]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"brokerscope/e2e/clients/mix"
	"github.com/IBM/sarama"
)

var (
	brokers  = []string{os.Args[1]}
	messages = mix.New(os.Args[2])
)

var codecs = []sarama.CompressionCodec{
	sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4,
	sarama.CompressionZSTD,
}

var allAcks = []struct {
	name string
	acks sarama.RequiredAcks
}{{"0", sarama.NoResponse}, {"1", sarama.WaitForLocal}, {"all", sarama.WaitForAll}}

var old = []sarama.KafkaVersion{
	sarama.V0_8_2_2, sarama.V0_9_0_1, sarama.V0_10_0_1, sarama.V0_10_2_1, sarama.V0_11_0_2, sarama.V1_1_1_0,
	sarama.V2_1_0_0, sarama.V2_3_0_0,
}

func config(name string) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = messages.Client + "-" + name
	config.Version = sarama.MaxVersion
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Flush.Frequency = 3 * time.Millisecond
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func idempotent(config *sarama.Config) {
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
}

func producer(config *sarama.Config) sarama.SyncProducer {
	return mix.Must(sarama.NewSyncProducer(brokers, config))
}

func message(record mix.Record) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{
		Topic: record.Topic, Partition: record.Partition, Value: sarama.ByteEncoder(record.Value),
	}
	if record.Key != nil {
		message.Key = sarama.ByteEncoder(record.Key)
	}
	if record.ID != nil {
		message.Headers = []sarama.RecordHeader{{Key: []byte("mid"), Value: record.ID}}
	}
	return message
}

func send(to sarama.SyncProducer, records []mix.Record) error {
	var all []*sarama.ProducerMessage
	for _, record := range records {
		all = append(all, message(record))
	}
	return to.SendMessages(all)
}

func rounds(to sarama.SyncProducer, count int) {
	for number := 0; number < count; number++ {
		mix.Check(send(to, messages.Round(number)))
	}
}

func everyCodecAndAcks() {
	for _, codec := range codecs {
		for _, acks := range allAcks {
			config := config(codec.String() + "-" + acks.name)
			config.Producer.RequiredAcks = acks.acks
			config.Producer.Compression = codec
			if acks.name == "all" {
				idempotent(config)
			}
			to := producer(config)
			rounds(to, 3)
			mix.Check(to.Close())
		}
	}
}

func big() {
	config := config("big")
	config.Producer.Flush.Frequency = 200 * time.Millisecond
	to := producer(config)
	var records []mix.Record
	for number := 0; number < 8; number++ {
		records = append(records, messages.Next(mix.Wide, int32(number%4), 200*1024))
	}
	mix.Check(send(to, records))
	mix.Check(to.Close())
}

func transactions() {
	config := config("transactional")
	idempotent(config)
	config.Producer.Transaction.ID = messages.Client + "-transaction"
	config.Producer.Compression = sarama.CompressionLZ4
	to := producer(config)
	for number := 0; number < 4; number++ {
		mix.Check(to.BeginTxn())
		rounds(to, 1)
		if number%2 == 0 {
			mix.Check(to.CommitTxn())
		} else {
			mix.Check(to.AbortTxn())
		}
	}
	mix.Check(to.Close())
}

func rewrittenAndRefused() {
	to := producer(config("rewritten"))
	mix.Check(send(to, []mix.Record{messages.Next(mix.Stamped, 0, 100)}))
	_, _, err := to.SendMessage(message(messages.Next(mix.Tight, 0, 5_000)))
	if !errors.Is(err, sarama.ErrMessageSizeTooLarge) {
		panic(fmt.Sprintf("a record of 5000 bytes: %v", err))
	}
	mix.Check(to.Close())
}

// reader counts the records that a group member reads, and ends the session after enough of them.
type reader struct {
	read, enough int
	end          context.CancelFunc
}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		if r.read++; r.read == r.enough {
			r.end()
		}
	}
	return nil
}

func consume() int {
	group := mix.Must(sarama.NewConsumerGroup(brokers, messages.Client+"-group", config("consumer")))
	limit, end := context.WithTimeout(context.Background(), 8*time.Second)
	defer end()
	// A topic with one partition: each partition has its own goroutine, and the counter has no lock.
	reader := &reader{enough: 1, end: end}
	mix.Check(group.Consume(limit, []string{mix.Stamped}, reader))
	mix.Check(group.Close())
	return reader.read
}

func oldVersions() {
	for _, version := range old {
		for _, codec := range codecs[:4] {
			// Message sets of magic 0 have their own LZ4 frames (KIP-57), which Sarama does not write.
			if codec == sarama.CompressionLZ4 && !version.IsAtLeast(sarama.V0_10_0_0) {
				continue
			}
			for _, acks := range allAcks {
				config := config(version.String() + "-" + codec.String() + "-" + acks.name)
				config.Version = version
				config.Producer.RequiredAcks = acks.acks
				config.Producer.Compression = codec
				to := producer(config)
				for number := 0; number < 2; number++ {
					mix.Check(send(to, messages.OldRound(number)))
				}
				mix.Check(to.Close())
			}
		}
	}
}

func oldReaders() (sum int) {
	for _, version := range old {
		config := config(version.String() + "-reader")
		config.Version = version
		from := mix.Must(sarama.NewConsumer(brokers, config))
		for partition := int32(0); partition < mix.OldPartitions; partition++ {
			claim := mix.Must(from.ConsumePartition(mix.Old, partition, sarama.OffsetOldest))
			timeout := time.After(2 * time.Second)
			for read := 0; read < 25; read++ {
				select {
				case <-claim.Messages():
					sum++
				case <-timeout:
					read = 25
				}
			}
			mix.Check(claim.Close())
		}
		mix.Check(from.Close())
	}
	return sum
}

func main() {
	if len(os.Args) > 3 {
		oldVersions()
		messages.Report(oldReaders())
		return
	}
	everyCodecAndAcks()
	big()
	transactions()
	rewrittenAndRefused()
	messages.Report(consume())
}
