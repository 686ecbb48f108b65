package kafka

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"replicator/debezium"
)

// Settings are those of a topic that say how long its records stay, and how large they may be.
type Settings struct {
	Retention      time.Duration // negative: for ever
	RetentionBytes int64         // of each partition; negative: any number
	Deletes        bool          // cleanup.policy: what is older than Retention or over RetentionBytes is removed
	Compacts       bool          // cleanup.policy: of each key the last record stays
	MaxMessage     int64         // bytes of a batch
}

// settingNames are the settings that are asked for.
var settingNames = []string{"cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes"}

// Settings returns the settings of topics, by name. A topic whose settings this user may not see is left out.
func (s *Source) Settings(ctx context.Context, topics []string) (map[string]Settings, error) {
	c := s.connect()
	defer c.reset()
	client := kafkago.Client{Addr: kafkago.TCP(s.cfg.Brokers...), Timeout: slack, Transport: c.transport}
	req := &kafkago.DescribeConfigsRequest{}
	for _, t := range topics {
		req.Resources = append(req.Resources, kafkago.DescribeConfigRequestResource{
			ResourceType: kafkago.ResourceTypeTopic, ResourceName: t, ConfigNames: settingNames,
		})
	}
	res, err := client.DescribeConfigs(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("the topics' settings: %w", err)
	}
	out := map[string]Settings{}
	for _, r := range res.Resources {
		if r.Error == nil && len(r.ConfigEntries) > 0 {
			out[r.ResourceName] = readSettings(r.ConfigEntries)
		}
	}
	return out, nil
}

func readSettings(entries []kafkago.DescribeConfigResponseConfigEntry) Settings {
	s := Settings{Retention: -1, RetentionBytes: -1}
	for _, e := range entries {
		n, err := strconv.ParseInt(e.ConfigValue, 10, 64)
		switch e.ConfigName {
		case "cleanup.policy":
			s.Deletes, s.Compacts = strings.Contains(e.ConfigValue, "delete"), strings.Contains(e.ConfigValue, "compact")
		case "retention.ms":
			if err == nil && n >= 0 && n < math.MaxInt64/int64(time.Millisecond) {
				s.Retention = time.Duration(n) * time.Millisecond
			}
		case "retention.bytes":
			if err == nil {
				s.RetentionBytes = n
			}
		case "max.message.bytes":
			if err == nil {
				s.MaxMessage = n
			}
		}
	}
	return s
}

// Sample reads the first most records of each partition from the offset that from gives it, as far as they are there, and stops
// early when it has read limit bytes of records. It returns a batch for each partition that has records.
func (s *Source) Sample(ctx context.Context, from debezium.Positions, most, limit int) (_ []debezium.Batch, err error) {
	topics := map[string]bool{}
	for p := range from {
		topics[p.Topic] = true
	}
	r, err := s.open(ctx, func(t topicMeta) bool { return topics[t.name] }, from)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := r.Close(); err == nil {
			err = cerr
		}
	}()
	open, found, size := map[debezium.Partition]int64{}, map[debezium.Partition]*debezium.Batch{}, 0
	for p, end := range r.End() {
		if at, asked := from[p]; asked && at.Offset < end {
			open[p] = end
			continue
		}
		r.Hold(p, true)
	}
	var order []*debezium.Batch
	for len(open) > 0 && size < limit {
		b, err := r.Next(ctx)
		if err != nil {
			return nil, err
		}
		end, wanted := open[b.Partition]
		if !wanted {
			continue
		}
		have := found[b.Partition]
		if have == nil && len(b.Records) > 0 {
			have = &debezium.Batch{Partition: b.Partition, TopicID: b.TopicID, End: b.End}
			found[b.Partition] = have
			order = append(order, have)
		}
		if have != nil {
			have.Records = append(have.Records, b.Records[:min(len(b.Records), most-len(have.Records))]...)
			have.Next = b.Next
		}
		size += b.Bytes
		if b.Next >= end || have != nil && len(have.Records) >= most {
			delete(open, b.Partition)
			r.Hold(b.Partition, true)
		}
	}
	out := make([]debezium.Batch, len(order))
	for i, b := range order {
		out[i] = *b
	}
	return out, nil
}
