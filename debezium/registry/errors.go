package registry

import (
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
