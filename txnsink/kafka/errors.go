package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// permanentError is an error that trying again brings again.
type permanentError struct{ text string }

func (e *permanentError) Error() string   { return e.text }
func (e *permanentError) Permanent() bool { return true }

func permanent(format string, args ...any) error {
	return &permanentError{fmt.Sprintf(format, args...)}
}

// serverError is what a broker or a connection said, without the driver's types.
type serverError struct {
	text  string
	cause error // context.Canceled or DeadlineExceeded, if that is what happened
}

func (e *serverError) Error() string { return e.text }
func (e *serverError) Unwrap() error { return e.cause }

// The errors that another user, another grant or another setting would end, with what to do.
var advice = map[*kerr.Error]string{
	kerr.SaslAuthenticationFailed:           "see to the user and the password of target.url, and to its mechanism",
	kerr.UnsupportedSaslMechanism:           "set the mechanism of target.url to one that the brokers have",
	kerr.TopicAuthorizationFailed:           "grant the user READ, WRITE, DESCRIBE and DESCRIBE_CONFIGS on the target's topic and on its control topic, and CREATE where they are to be made",
	kerr.TransactionalIDAuthorizationFailed: "grant the user WRITE and DESCRIBE on transactional ids that begin with replicator:",
	kerr.ClusterAuthorizationFailed:         "grant the user IDEMPOTENT_WRITE on the cluster",
	kerr.InvalidTransactionTimeout:          "lower target.transaction_timeout, or raise transaction.max.timeout.ms on the brokers",
	kerr.UnsupportedForMessageFormat:        "the brokers are too old: upgrade them to Kafka 2.5 or later",
	kerr.InvalidTopicException:              "see to the topic's name in target.url",
	kerr.InvalidReplicationFactor:           "create the topics yourself, or start as many brokers as default.replication.factor says",
	kerr.PolicyViolation:                    "create the topics yourself, as the brokers' policy wants them",
}

// plainError returns err without the driver's types, for callers that do not know the driver. An error of this package comes back as it is.
func plainError(err error) error {
	var own *permanentError
	if err == nil || errors.As(err, &own) {
		return err
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		if do, ok := advice[ke]; ok {
			return permanent("%v: %s", err, do)
		}
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return permanent("tls_configuration: %v: set target.tls.ca to the file of the authority that signed the brokers' certificates, and target.tls.server_name to the name that they are for", err)
	}
	out := &serverError{text: err.Error()}
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, cause) {
			out.cause = cause
		}
	}
	return out
}

// taken says whether err is the answer to a producer whose transactional id somebody else has taken over, or whose transaction was
// ended by somebody else.
func taken(err error) bool {
	for _, e := range []*kerr.Error{
		kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping, kerr.TransactionAbortable, kerr.UnknownProducerID,
		kerr.TransactionalIDNotFound,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
