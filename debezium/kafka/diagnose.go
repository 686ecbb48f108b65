package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"syscall"

	kafkago "github.com/segmentio/kafka-go"
)

// probeError is what is wrong with a broker that was probed.
type probeError struct {
	addr string
	err  error
}

// where is what kafka-go says before a cause, and a probeError has said.
var where = regexp.MustCompile(`^(?:failed to dial: |failed to open connection to \S+: |could not successfully authenticate to \S+ with SASL: )+`)

func (e *probeError) Error() string {
	words, all := diagnose(e.err)
	if all {
		return fmt.Sprintf("broker %s: %s", e.addr, words)
	}
	return fmt.Sprintf("broker %s: %s: %s", e.addr, words, where.ReplaceAllString(e.err.Error(), ""))
}

func (e *probeError) Unwrap() error { return e.err }

// diagnose says in an operator's words why a broker could not be talked to, and whether that is all that err says.
func diagnose(err error) (words string, all bool) {
	var dns *net.DNSError
	var timeout net.Error
	var unknown x509.UnknownAuthorityError
	var otherName x509.HostnameError
	var certificate *tls.CertificateVerificationError
	var token *tokenError
	switch {
	case errors.As(err, &token):
		return "it was not asked, for want of a token to log in with", false
	case errors.As(err, &unknown):
		return "its certificate is signed by none that is trusted here; set source.tls.ca to the certificate of the authority that signed it", false
	case errors.As(err, &otherName):
		return "its certificate is for other names; connect by one of them, or set source.tls.server_name to one", false
	case errors.As(err, &certificate):
		return "its certificate is not valid", false
	case errors.As(err, &dns):
		return "its name cannot be resolved (" + dns.Err + "); see to source.brokers", true
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; is the broker running, and is this its address and port?", true
	case errors.Is(err, kafkago.SASLAuthenticationFailed):
		return "it refuses the user or the password, or the token; see to source.sasl", false
	case errors.Is(err, kafkago.UnsupportedSASLMechanism):
		return "it does not offer this SASL mechanism; see to source.sasl.mechanism", false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "it closed the connection; see whether this port expects TLS, SASL, both or neither", true
	case errors.Is(err, io.ErrNoProgress):
		return "what it sends is not Kafka's protocol; is this another program's port?", true
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time; a firewall, or a port that expects TLS, or does not", true
	}
	return "cannot connect", false
}
