package registry

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"replicator/debezium"
)

// answerError is an answer that is not OK.
type answerError struct {
	address string
	code    int
	message string
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("the schema registry answers %d %s to %s", e.code, http.StatusText(e.code), e.address)
	if e.message != "" {
		text += fmt.Sprintf(" (%q)", e.message)
	}
	return text
}

// deniedError is the answer that this user may not ask.
type deniedError struct{ answer *answerError }

func (e *deniedError) Error() string {
	return e.answer.Error() + "; see to source.registry.username and password"
}

func (e *deniedError) Unwrap() error { return e.answer }

// Permanent says that asking again is of no use until somebody changes the configuration or the registry.
func (e *deniedError) Permanent() bool { return true }

// untrustedError is a registry whose certificate does not show that it is the registry.
type untrustedError struct{ err error }

func (e *untrustedError) Error() string {
	return fmt.Sprintf("ask the schema registry: %v; see to source.registry.tls: ca is the certificate of the authority that signed the registry's, server_name a name that it is for", e.err)
}

func (e *untrustedError) Unwrap() error { return e.err }

// Permanent says that asking again is of no use until somebody changes the configuration or the registry.
func (e *untrustedError) Permanent() bool { return true }

// unreached says why there was no answer.
func unreached(err error) error {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return &untrustedError{err}
	}
	return fmt.Errorf("ask the schema registry: %w", err)
}

// passes says whether the same request may be answered otherwise soon.
func (e *answerError) passes() bool {
	return e.code >= 500 || e.code == http.StatusTooManyRequests || e.code == http.StatusRequestTimeout || e.code == http.StatusNotFound
}

// unknown makes the answer "not found" one that says there is no such schema. nil stays nil.
func unknown(err error) error {
	var a *answerError
	if errors.As(err, &a) && a.code == http.StatusNotFound {
		return fmt.Errorf("%w: %w; is source.registry.url the registry that the connector uses? Of Apicurio it ends with /apis/ccompat/v7", debezium.ErrNoSchema, err)
	}
	return err
}
