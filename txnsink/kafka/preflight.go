package kafka

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Facts is what the brokers say of a target.
type Facts struct {
	Topic      string
	Control    string
	Partitions int  // of Topic; 0: it is missing
	OwnTopic   bool // the control topic is there
	Compacted  bool // Topic keeps the last message of each key only
	// Replicas and MinInSync are the control topic's, or where it is missing the topic's: what is committed is lost with them.
	Replicas, MinInSync int           // MinInSync 0: not known
	MaxTimeout          time.Duration // transaction.max.timeout.ms; 0: the user may not ask
}

// Look asks the brokers. It changes nothing.
func (s *Sink) Look(ctx context.Context) (Facts, error) {
	f := Facts{Topic: s.address.topic, Control: s.journal.topic}
	for _, name := range []string{f.Topic, f.Control} {
		found, err := s.describe(ctx, name)
		if err != nil {
			return f, fmt.Errorf("look for topic %s: %w", name, plainError(err))
		}
		if found == nil {
			continue
		}
		configs, err := s.configs(ctx, kmsg.ConfigResourceTypeTopic, name)
		if err != nil {
			return f, err
		}
		if name == f.Topic {
			f.Partitions, f.Compacted = len(found.Partitions), configs["cleanup.policy"] == "compact"
		} else {
			f.OwnTopic = true
		}
		f.Replicas = len(found.Partitions[0].Replicas)
		if f.MinInSync, err = strconv.Atoi(configs["min.insync.replicas"]); err != nil {
			f.MinInSync = 0
		}
	}
	brokers, err := s.metadata(ctx)
	if err != nil {
		return f, err
	}
	configs, err := s.configs(ctx, kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(brokers[0].NodeID)))
	if err != nil {
		return f, err
	}
	if ms, err := strconv.ParseInt(configs["transaction.max.timeout.ms"], 10, 64); err == nil {
		f.MaxTimeout = time.Duration(ms) * time.Millisecond
	}
	return f, nil
}

func (s *Sink) metadata(ctx context.Context) ([]kmsg.MetadataResponseBroker, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none
	resp, err := req.RequestWith(ctx, s.admin)
	if err != nil {
		return nil, fmt.Errorf("ask for the brokers: %w", plainError(err))
	}
	if len(resp.Brokers) == 0 {
		return nil, fmt.Errorf("ask for the brokers: the answer has none")
	}
	return resp.Brokers, nil
}
