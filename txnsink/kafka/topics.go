package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topics is what the brokers say of the URL's topic.
type topics struct {
	partitions int32 // 0: not known yet
	maxMessage int32 // bytes of a batch
}

// defaultMaxMessage is Kafka's max.message.bytes, for where the user may not ask.
const defaultMaxMessage = 1_048_588

// controlConfigs make the control topic short to read. The broker's clock says how old a prepared transaction is.
var controlConfigs = map[string]string{
	"cleanup.policy": "compact", "segment.bytes": strconv.Itoa(16 << 20), "min.cleanable.dirty.ratio": "0.1",
	"message.timestamp.type": "LogAppendTime",
}

// Up makes the control topic, and the URL's, where they are missing. It may run in several processes at once.
func (s *Sink) Up(ctx context.Context) error {
	if err := s.create(ctx, s.address.topic, -1, nil); err != nil {
		return err
	}
	return s.create(ctx, s.journal.topic, 1, controlConfigs)
}

// Ready says whether both topics are there, and makes neither.
func (s *Sink) Ready(ctx context.Context) (bool, error) {
	for _, name := range []string{s.address.topic, s.journal.topic} {
		found, err := s.describe(ctx, name)
		if err != nil {
			return false, fmt.Errorf("look for topic %s: %w", name, plainError(err))
		}
		if found == nil {
			return false, nil
		}
	}
	return true, nil
}

// create makes a topic with as many partitions (-1: the brokers' default) and replicas as the brokers' default says, if it is missing.
func (s *Sink) create(ctx context.Context, name string, partitions int32, configs map[string]string) error {
	found, err := s.describe(ctx, name)
	if err == nil && found != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for topic %s: %w", name, plainError(err))
	}
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, -1
	for k, v := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, kmsg.StringPtr(v)
		t.Configs = append(t.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(requestWithin.Milliseconds())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, s.admin)
	if err == nil && len(resp.Topics) == 1 {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", name, plainError(err))
	}
	return s.await(ctx, name)
}

// await waits until the brokers know a topic that was created: they are told one after the other.
func (s *Sink) await(ctx context.Context, name string) error {
	for range createdTries {
		found, err := s.describe(ctx, name)
		if err != nil || found != nil {
			return plainError(err)
		}
		if err := pause(ctx, readPause); err != nil {
			return err
		}
	}
	return fmt.Errorf("topic %s was created, and the brokers do not know it yet", name)
}

const createdTries = 100

// describe asks for a topic; nil: there is none, or a partition of it has no leader yet.
func (s *Sink) describe(ctx context.Context, name string) (*kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, s.admin)
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 {
		return nil, errors.New("a broker did not answer what it was asked")
	}
	found := &resp.Topics[0]
	switch err := kerr.ErrorForCode(found.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.LeaderNotAvailable):
		return nil, nil
	case err != nil:
		return nil, err
	}
	for _, p := range found.Partitions {
		if p.Leader < 0 {
			return nil, nil
		}
	}
	return found, nil
}

// lookAtTopic asks for the URL's topic, once.
func (s *Sink) lookAtTopic(ctx context.Context) error {
	s.mu.Lock()
	known := s.topics.partitions > 0
	s.mu.Unlock()
	if known {
		return nil
	}
	found, err := s.describe(ctx, s.address.topic)
	if err != nil {
		return fmt.Errorf("look for topic %s: %w", s.address.topic, plainError(err))
	}
	if found == nil {
		return permanent("topic %s of target.url is missing: run `replicator migrate up`, or create it", s.address.topic)
	}
	configs, err := s.configs(ctx, kmsg.ConfigResourceTypeTopic, s.address.topic)
	if err != nil {
		return err
	}
	t := topics{partitions: int32(len(found.Partitions)), maxMessage: defaultMaxMessage}
	if n, err := strconv.ParseInt(configs["max.message.bytes"], 10, 32); err == nil && n > 2*overhead {
		t.maxMessage = int32(n)
	}
	s.mu.Lock()
	s.topics = t
	s.mu.Unlock()
	return nil
}

// configs returns the settings of a topic or a broker, none where the user may not ask.
func (s *Sink) configs(ctx context.Context, kind kmsg.ConfigResourceType, name string) (map[string]string, error) {
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, s.admin)
	if err != nil {
		return nil, fmt.Errorf("ask for the settings of %s: %w", name, plainError(err))
	}
	out := map[string]string{}
	for _, r := range resp.Resources {
		for _, c := range r.Configs {
			if c.Value != nil {
				out[c.Name] = *c.Value
			}
		}
	}
	return out, nil
}
