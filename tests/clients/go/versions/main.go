// franz-go pinned to each version in turn of every API that it and the broker support: a short round with each.
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
	// The highest version of any API except Fetch.
	newest = 13
	// The highest version of Produce that franz-go encodes.
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

// ask sends any request directly to the only broker, which a metadata request discovers.
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
	// Kafka 4 advertises Produce from version 0, because some clients would refuse to connect otherwise, but accepts it
	// from version 3 (KIP-896). It removed Fetch version 0 at the same time.
	if lowest[fetch] > 0 {
		lowest[produce] = 3
	}
	// Version 0 is for offsets in ZooKeeper.
	for _, api := range []int16{offsetCommit, offsetFetch} {
		if lowest[api] == 0 {
			lowest[api] = 1
		}
	}
}

// all pins every API except Produce, Fetch and ApiVersions to this version, or to the nearest supported one.
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

// group finds a coordinator, joins, fetches and commits offsets, and leaves.
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
	// Version 0 does not support transaction coordinators.
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

// administer sends administrators' requests, some of them invalid.
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

// together runs the versions in parallel, because consumers mostly wait.
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
