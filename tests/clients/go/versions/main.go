// franz-go pinned to one version after the other, of every API that it and the broker know: a short round of each.
// Checks nothing.
//
// versions BOOTSTRAP NAME
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"brokerscope/e2e/clients/mix"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	produce, fetch, offsetCommit, offsetFetch, findCoordinator, apiVersions = 0, 1, 8, 9, 10, 18
	// The highest that any API has, with Fetch aside.
	newest = 13
	// franz-go writes Produce to this version by itself.
	newestOwnProduce = 9
	newestProduce    = 12
	newestFetch      = 15
)

var (
	bootstrap = os.Args[1]
	messages  = mix.New(os.Args[2])
	ctx       = context.Background()
	lowest    = map[int16]int16{}
	highest   = map[int16]int16{}
)

func client(name string, pinned *kversion.Versions, more ...kgo.Opt) *kgo.Client {
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ClientID(messages.Client + "-" + name), kgo.MaxVersions(pinned),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchMaxWait(100 * time.Millisecond),
	}
	return mix.Must(kgo.NewClient(append(options, more...)...))
}

// Asks the one broker itself, no matter what the request; metadata find it.
func ask(to *kgo.Client, request kmsg.Request) kmsg.Response {
	mix.Must(to.Request(ctx, kmsg.NewPtrMetadataRequest()))
	return mix.Must(to.DiscoveredBrokers()[0].Request(ctx, request))
}

func learnVersions() {
	to := client("asks", kversion.Stable())
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "franz-go", "1"
	for _, api := range ask(to, request).(*kmsg.ApiVersionsResponse).ApiKeys {
		lowest[api.ApiKey], highest[api.ApiKey] = api.MinVersion, api.MaxVersion
	}
	to.Close()
	// Kafka 4 says that it takes Produce from version 0, for clients that else went away, and takes it from 3
	// (KIP-896); Fetch it gave up at the same time.
	if lowest[fetch] > 0 {
		lowest[produce] = 3
	}
	// Version 0 is of offsets kept in ZooKeeper.
	for _, api := range []int16{offsetCommit, offsetFetch} {
		if lowest[api] == 0 {
			lowest[api] = 1
		}
	}
}

// Every API but those that find out versions and carry records, at this version or the nearest there is.
func all(version int16) *kversion.Versions {
	versions := kversion.Stable()
	versions.EachMaxKeyVersion(func(api, most int16) {
		if least, served := lowest[api]; served && api != produce && api != fetch && api != apiVersions {
			versions.SetMaxKeyVersion(api, min(most, max(version, least)))
		}
	})
	return versions
}

func one(api, version int16) *kversion.Versions {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(api, version)
	return versions
}

func min(a, b int16) int16 {
	if a < b {
		return a
	}
	return b
}

func max(a, b int16) int16 { return -min(-a, -b) }

func oldRecords() []mix.Record { return append(messages.OldRound(0), messages.OldRound(1)...) }

func everyProduce() {
	for version := lowest[produce]; version <= min(highest[produce], newestProduce); version++ {
		to := client(fmt.Sprintf("produce-%d-none-1", version), one(produce, version), kgo.RequiredAcks(kgo.LeaderAck()),
			kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.NoCompression()))
		if version > newestOwnProduce {
			ask(to, newer{byHand(oldRecords())})
		} else {
			for _, record := range oldRecords() {
				sent := &kgo.Record{Topic: record.Topic, Partition: record.Partition, Key: record.Key, Value: record.Value}
				to.Produce(ctx, sent, func(_ *kgo.Record, err error) { mix.Check(err) })
			}
			mix.Check(to.Flush(ctx))
		}
		to.Close()
	}
}

func read(from *kgo.Client, enough int) (read int) {
	limit, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	for read < enough && limit.Err() == nil {
		read += from.PollFetches(limit).NumRecords()
	}
	return read
}

func readAt(version int16) int {
	from := client(fmt.Sprintf("fetch-%d", version), one(fetch, version), kgo.ConsumeTopics(mix.Old),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer from.Close()
	return read(from, 100)
}

// Finds a coordinator, joins, fetches and commits offsets, leaves.
func group(version int16) int {
	from := client(fmt.Sprintf("group-%d", version), all(version), kgo.ConsumeTopics(mix.Old),
		kgo.ConsumerGroup(fmt.Sprintf("%s-group-%d", messages.Client, version)), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(20*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer from.Close()
	read := read(from, 100)
	mix.Check(from.CommitUncommittedOffsets(ctx))
	time.Sleep(60 * time.Millisecond)
	return read
}

func transaction(version int16) {
	versions := all(version)
	// Version 0 knows no transactions' coordinators.
	if version == 0 {
		versions.SetMaxKeyVersion(findCoordinator, 1)
	}
	to := client(fmt.Sprintf("transaction-%d", version), versions,
		kgo.TransactionalID(fmt.Sprintf("%s-transaction-%d", messages.Client, version)))
	mix.Check(to.BeginTransaction())
	record := messages.Next(mix.Mix, 0, 100)
	sent := &kgo.Record{Topic: record.Topic, Value: record.Value,
		Headers: []kgo.RecordHeader{{Key: "mid", Value: record.ID}}}
	mix.Check(to.ProduceSync(ctx, sent).FirstErr())
	mix.Check(to.EndTransaction(ctx, kgo.TryCommit))
	to.Close()
}

// What only administrators ask, and mistakes of theirs.
func administer(version int16) {
	to := client(fmt.Sprintf("admin-%d", version), all(version))
	defer to.Close()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{kmsg.NewCreateTopicsRequestTopic()}
	create.Topics[0].Topic, create.Topics[0].NumPartitions = mix.Old, 1
	create.Topics[0].ReplicationFactor = 1
	ask(to, create)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Topics = []kmsg.MetadataRequestTopic{kmsg.NewMetadataRequestTopic()}
	metadata.Topics[0].Topic = kmsg.StringPtr(mix.Old)
	ask(to, metadata)
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Groups = []string{messages.Client + "-group-0"}
	ask(to, groups)
	ask(to, kmsg.NewPtrListGroupsRequest())
	fetched := kmsg.NewPtrOffsetFetchRequest()
	fetched.Group = "nobody"
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = "nobody"
	fetched.Groups = []kmsg.OffsetFetchRequestGroup{one}
	ask(to, fetched)
}

// Side by side, as readers wait more than they work.
func together(versions, upTo int16, read func(int16) int) (sum int) {
	var done sync.WaitGroup
	counts := make([]int, upTo+1)
	for version := versions; version <= upTo; version++ {
		done.Add(1)
		go func(version int16) {
			defer done.Done()
			counts[version] = read(version)
		}(version)
	}
	done.Wait()
	for _, count := range counts {
		sum += count
	}
	return sum
}

func main() {
	learnVersions()
	everyProduce()
	sum := together(lowest[fetch], min(highest[fetch], newestFetch), readAt)
	sum += together(0, newest, group)
	for version := int16(0); version <= newest; version++ {
		transaction(version)
		administer(version)
	}
	messages.Report(sum)
}
