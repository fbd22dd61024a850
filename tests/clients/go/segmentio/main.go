// segmentio/kafka-go's part of the end-to-end test: every codec, every acks, a consumer group. Checks nothing.
//
// segmentio BOOTSTRAP NAME
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"brokerscope/e2e/clients/mix"
	"github.com/segmentio/kafka-go"
)

var (
	bootstrap = os.Args[1]
	messages  = mix.New(os.Args[2])
	ctx       = context.Background()
)

var codecs = []struct {
	name  string
	codec kafka.Compression
}{
	{"none", 0}, {"gzip", kafka.Gzip}, {"snappy", kafka.Snappy}, {"lz4", kafka.Lz4}, {"zstd", kafka.Zstd},
}

var allAcks = []struct {
	name string
	acks kafka.RequiredAcks
}{{"0", kafka.RequireNone}, {"1", kafka.RequireOne}, {"all", kafka.RequireAll}}

// there is a balancer that returns the partition that the message names.
func there(message kafka.Message, _ ...int) int { return message.Partition }

func writer(name string) *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Transport: &kafka.Transport{ClientID: messages.Client + "-" + name},
		Balancer: kafka.BalancerFunc(there), BatchTimeout: 3 * time.Millisecond, BatchBytes: 1_000_000,
	}
}

func send(to *kafka.Writer, records []mix.Record) error {
	var all []kafka.Message
	for _, record := range records {
		all = append(all, kafka.Message{
			Topic: record.Topic, Partition: int(record.Partition), Key: record.Key, Value: record.Value,
			Headers: []kafka.Header{{Key: "mid", Value: record.ID}},
		})
	}
	return to.WriteMessages(ctx, all...)
}

func everyCodecAndAcks() {
	for _, codec := range codecs {
		for _, acks := range allAcks {
			to := writer(codec.name + "-" + acks.name)
			to.Compression = codec.codec
			to.RequiredAcks = acks.acks
			for number := 0; number < 3; number++ {
				mix.Check(send(to, messages.Round(number)))
			}
			mix.Check(to.Close())
		}
	}
}

func rewrittenAndRefused() {
	to := writer("rewritten")
	to.RequiredAcks = kafka.RequireOne
	mix.Check(send(to, []mix.Record{messages.Next(mix.Stamped, 0, 100)}))
	err := send(to, []mix.Record{messages.Next(mix.Tight, 0, 5_000)})
	if errs, many := err.(kafka.WriteErrors); many {
		err = errs[0]
	}
	if !errors.Is(err, kafka.MessageSizeTooLarge) {
		panic(fmt.Sprintf("a record of 5000 bytes: %v", err))
	}
	mix.Check(to.Close())
}

func consume() (read int) {
	from := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, GroupID: messages.Client + "-group", Topic: mix.Mix,
		Dialer:  &kafka.Dialer{ClientID: messages.Client + "-consumer", Timeout: 10 * time.Second},
		MaxWait: 100 * time.Millisecond, StartOffset: kafka.FirstOffset,
	})
	limit, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	for ; read < 200; read++ {
		if _, err := from.ReadMessage(limit); err != nil {
			break
		}
	}
	mix.Check(from.Close())
	return read
}

func main() {
	everyCodecAndAcks()
	rewrittenAndRefused()
	messages.Report(consume())
}
