package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// SASL is how to log in to the brokers. Without a Mechanism there is no log-in.
type SASL struct {
	Mechanism string // one of Mechanisms
	Username  string
	Password  string
	OAuth     OAuth // OAUTHBEARER's, in place of a user
}

// Mechanisms are the ways of logging in that are served.
var Mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}

// mechanism returns kafka-go's, nil if there is none.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "":
		return nil, nil // that is what kafka-go takes for no log-in
	case "PLAIN":
		return plain.Mechanism{Username: s.Username, Password: s.Password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, s.Username, s.Password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, s.Username, s.Password)
	case "OAUTHBEARER":
		if err := s.OAuth.check(); err != nil {
			return nil, err
		}
		return newBearer(s.OAuth), nil
	}
	return nil, fmt.Errorf("SASL mechanism %q is none of %q", s.Mechanism, Mechanisms)
}

// unwelcome returns the permanent error that a connection failed with, or nil if that may pass.
func unwelcome(err error) error {
	var certificate *tls.CertificateVerificationError
	var token *tokenError
	words, _ := diagnose(err)
	switch {
	case errors.As(err, &token):
		if token.final {
			return &Error{Class: NotAuthenticated, Offset: -1, Detail: token.Error()}
		}
		return nil
	case errors.As(err, &certificate):
		return &Error{Class: NotTrusted, Offset: -1, Err: err, Detail: words}
	case errors.Is(err, kafkago.UnsupportedSASLMechanism), denied(err):
		return &Error{Class: NotAuthenticated, Offset: -1, Err: err, Detail: words}
	}
	return nil
}

// denied says whether a broker refused the user or the password. kafka-go reports a connection that breaks while it logs in, as
// one does whose broker ends, by the same code; only a broker adds words of its own.
func denied(err error) bool {
	return errors.Is(err, kafkago.SASLAuthenticationFailed) && err.Error() != kafkago.SASLAuthenticationFailed.Error()
}

// dial opens a connection, encrypted if it is to be, for whoever speaks Kafka on it.
func (s *Source) dial(ctx context.Context, network, address string) (net.Conn, error) {
	plain, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || s.cfg.TLS == nil {
		return plain, err
	}
	config, err := s.cfg.TLS()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("source.tls: %w", err), plain.Close())
	}
	if config.ServerName == "" {
		config = config.Clone()
		if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return nil, errors.Join(err, plain.Close())
		}
	}
	encrypted := tls.Client(plain, config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return encrypted, nil
}
