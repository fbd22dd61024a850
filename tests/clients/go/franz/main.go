// franz-go's part of the end-to-end test: every codec, every acks, transactions, a consumer group; with `old` also
// every version back to message sets. Checks nothing.
//
// franz BOOTSTRAP NAME [old]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"brokerscope/e2e/clients/mix"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

var (
	bootstrap = os.Args[1]
	messages  = mix.New(os.Args[2])
	ctx       = context.Background()
)

var codecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()}, {"gzip", kgo.GzipCompression()}, {"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()},
}

var allAcks = []struct {
	name string
	acks kgo.Acks
}{{"0", kgo.NoAck()}, {"1", kgo.LeaderAck()}, {"all", kgo.AllISRAcks()}}

// Versions before record headers, and some after: each uses different versions of every API.
var old = []struct {
	name     string
	versions *kversion.Versions
	lz4      bool
}{
	{"0.8.2", kversion.V0_8_2(), false}, {"0.9.0", kversion.V0_9_0(), false}, {"0.10.0", kversion.V0_10_0(), true},
	{"0.10.1", kversion.V0_10_1(), true}, {"0.11.0", kversion.V0_11_0(), true}, {"1.0.0", kversion.V1_0_0(), true},
	{"2.0.0", kversion.V2_0_0(), true}, {"2.2.0", kversion.V2_2_0(), true}, {"2.4.0", kversion.V2_4_0(), true},
}

func client(name string, more ...kgo.Opt) *kgo.Client {
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ClientID(messages.Client + "-" + name),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	return mix.Must(kgo.NewClient(append(options, more...)...))
}

func send(to *kgo.Client, records []mix.Record) {
	for _, record := range records {
		sent := &kgo.Record{Topic: record.Topic, Partition: record.Partition, Key: record.Key, Value: record.Value}
		if record.ID != nil {
			sent.Headers = []kgo.RecordHeader{{Key: "mid", Value: record.ID}}
		}
		to.Produce(ctx, sent, func(_ *kgo.Record, err error) { mix.Check(err) })
	}
}

func rounds(to *kgo.Client, count int) {
	for number := 0; number < count; number++ {
		send(to, messages.Round(number))
		mix.Check(to.Flush(ctx))
	}
}

// Only acks=all may be idempotent.
func acknowledged(name string, acks kgo.Acks) []kgo.Opt {
	if name == "all" {
		return []kgo.Opt{kgo.RequiredAcks(acks)}
	}
	return []kgo.Opt{kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite()}
}

func everyCodecAndAcks() {
	for _, codec := range codecs {
		for _, acks := range allAcks {
			options := append(acknowledged(acks.name, acks.acks), kgo.ProducerBatchCompression(codec.codec),
				kgo.ProducerLinger(3*time.Millisecond))
			to := client(codec.name+"-"+acks.name, options...)
			rounds(to, 3)
			to.Close()
		}
	}
}

func oneAtATime() {
	to := client("one-at-a-time", kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(),
		kgo.MaxProduceRequestsInflightPerBroker(5))
	for number := 0; number < 100; number++ {
		send(to, []mix.Record{messages.Next(mix.Mix, int32(number%mix.MixPartitions), mix.Sizes[number%4])})
	}
	mix.Check(to.Flush(ctx))
	to.Close()
}

func big() {
	to := client("big", kgo.ProducerLinger(200*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for number := 0; number < 8; number++ {
		send(to, []mix.Record{messages.Next(mix.Wide, int32(number%4), 200*1024)})
	}
	mix.Check(to.Flush(ctx))
	to.Close()
}

func transactions() {
	to := client("transactional", kgo.TransactionalID(messages.Client+"-transaction"),
		kgo.ProducerBatchCompression(kgo.SnappyCompression()))
	for number := 0; number < 4; number++ {
		mix.Check(to.BeginTransaction())
		rounds(to, 1)
		mix.Check(to.EndTransaction(ctx, kgo.TransactionEndTry(number%2 == 0)))
	}
	to.Close()
}

func rewrittenAndRefused() {
	to := client("rewritten", kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	send(to, []mix.Record{messages.Next(mix.Stamped, 0, 100)})
	record := messages.Next(mix.Tight, 0, 5_000)
	sent := &kgo.Record{Topic: record.Topic, Value: record.Value,
		Headers: []kgo.RecordHeader{{Key: "mid", Value: record.ID}}}
	if err := to.ProduceSync(ctx, sent).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		panic(fmt.Sprintf("a record of 5000 bytes: %v", err))
	}
	mix.Check(to.Flush(ctx))
	to.Close()
}

func read(from *kgo.Client, enough int) (read int) {
	limit, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	for read < enough && limit.Err() == nil {
		read += from.PollFetches(limit).NumRecords()
	}
	return read
}

func consume() int {
	from := client("consumer", kgo.ConsumerGroup(messages.Client+"-group"), kgo.ConsumeTopics(mix.Mix),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.DisableAutoCommit())
	read := read(from, 200)
	mix.Check(from.CommitUncommittedOffsets(ctx))
	from.Close()
	return read
}

func oldVersions() {
	for _, version := range old {
		for _, codec := range codecs[:4] {
			// Message sets of magic 0 have their own frames (KIP-57), which franz-go does not write.
			if codec.name == "lz4" && !version.lz4 {
				continue
			}
			for _, acks := range allAcks {
				to := client(version.name+"-"+codec.name+"-"+acks.name, kgo.MaxVersions(version.versions),
					kgo.RequiredAcks(acks.acks), kgo.DisableIdempotentWrite(),
					kgo.ProducerBatchCompression(codec.codec), kgo.ProducerLinger(3*time.Millisecond))
				for number := 0; number < 2; number++ {
					send(to, messages.OldRound(number))
					mix.Check(to.Flush(ctx))
				}
				to.Close()
			}
		}
	}
}

func oldReaders() (sum int) {
	for _, version := range old {
		from := client(version.name+"-reader", kgo.MaxVersions(version.versions), kgo.ConsumeTopics(mix.Old),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
		sum += read(from, 100)
		from.Close()
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
	oneAtATime()
	big()
	transactions()
	rewrittenAndRefused()
	messages.Report(consume())
}
