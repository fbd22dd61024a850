// Package mix is the shared code of the Go clients in the end-to-end test: topics, sizes, values, message ids.
// Clients.java creates the topics.
package mix

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
)

const (
	Mix            = "mix"
	MixPartitions  = 4
	Wide           = "wide.topic_with-dash-3"
	WidePartitions = 12
	Stamped        = "stamped"
	Tight          = "tight"
	// Written in old formats, and read by consumers that know only those.
	Old           = "old"
	OldPartitions = 4
)

var Sizes = []int{1, 10, 100, 1_000, 10_000}

// Messages numbers the records of one client; every record carries its number in the header `mid`.
type Messages struct {
	Client string
	// Numbers of records with the header and without it.
	Sent, Unnamed int
	random        *rand.Rand
}

func New(client string) *Messages {
	return &Messages{Client: client, random: rand.New(rand.NewSource(20))}
}

// Record is a record to send.
type Record struct {
	Topic      string
	Partition  int32
	Key, Value []byte
	// The value of the header `mid`; nil if there is no header.
	ID []byte
}

// Next returns a record with a value of `size` bytes, half of it random.
func (m *Messages) Next(topic string, partition int32, size int) Record {
	record := m.record(topic, partition, size, m.Sent)
	record.ID = []byte(fmt.Sprintf("%s-%d", m.Client, m.Sent))
	m.Sent++
	return record
}

// Round returns one record per partition of two topics.
func (m *Messages) Round(number int) []Record {
	var records []Record
	for partition := 0; partition < MixPartitions; partition++ {
		records = append(records, m.Next(Mix, int32(partition), Sizes[number%len(Sizes)]))
	}
	for partition := 0; partition < WidePartitions; partition++ {
		records = append(records, m.Next(Wide, int32(partition), Sizes[(number+partition)%len(Sizes)]))
	}
	return records
}

// OldRound returns records without headers, which message sets lack, for every partition of the topic Old.
func (m *Messages) OldRound(number int) []Record {
	var records []Record
	for i := 0; i < 3*OldPartitions; i++ {
		records = append(records, m.record(Old, int32(i%OldPartitions), Sizes[(number+i)%4], m.Unnamed))
		m.Unnamed++
	}
	return records
}

func (m *Messages) record(topic string, partition int32, size, number int) Record {
	value := make([]byte, size)
	m.random.Read(value[:(size+1)/2])
	record := Record{Topic: topic, Partition: partition, Value: value}
	if number%3 != 0 {
		record.Key = []byte(fmt.Sprintf("key-%d", number%7))
	}
	return record
}

// Report prints the numbers of records sent and read.
func (m *Messages) Report(read int) {
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"client": m.Client, "sent": m.Sent, "unnamed": m.Unnamed, "read": read,
	})
}

// Must returns the value, or ends the client after an error.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

func Check(err error) {
	if err != nil {
		panic(err)
	}
}
