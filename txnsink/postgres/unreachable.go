package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// How the driver says of an address what failed there: who was to log in, and each address twice.
var (
	whoFailed   = regexp.MustCompile("^failed to connect to `[^`]*`: ")
	nameFailed  = regexp.MustCompile(`^(?:hostname resolving error: )?lookup (\S+)(?: on \S+)?: `)
	placeFailed = regexp.MustCompile(`^(\S+) \((\S*)\): (?:(?:dial|tls) error: )?(?:dial \S+ \S+: (?:connect: )?)?`)
	timeFailed  = strings.NewReplacer("timeout: context deadline exceeded", "no answer in time")
)

// attempts are what failed of a connection, once each, in few words and beginning with the place. The driver tries each address, and without an
// sslmode each once more in plain text.
func attempts(err error) []string {
	lines := strings.Split(err.Error(), "\n")
	if len(lines) > 1 {
		lines = lines[1:] // which user and which database
	}
	for i, line := range lines {
		line = whoFailed.ReplaceAllString(strings.TrimSpace(line), "")
		line = nameFailed.ReplaceAllString(line, "$1: ")
		if m := placeFailed.FindStringSubmatch(line); m != nil {
			place := m[1]
			if !strings.HasPrefix(place, m[2]) {
				place = m[2] + " (" + place + ")"
			}
			line = place + ": " + line[len(m[0]):]
		}
		lines[i] = timeFailed.Replace(line)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// unreachable is why a server did not let a session begin, in one line, with what to look at.
func unreachable(err error) string {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) {
		return err.Error()
	}
	text := strings.Join(attempts(err), "; ")
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return text + ": see to the host in the URL"
	case errors.Is(err, syscall.ECONNREFUSED):
		return text + ": is the server running, and are host and port of the URL its own?"
	}
	return text + ": is it PostgreSQL that answers there?"
}

// untrusted says whether no session began because TLS did not: the server has none, or its certificate does not show that it is the
// server that was asked for. Without an sslmode a server that has none is asked again in plain text, and then that is what failed.
func untrusted(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError // what pgx says with sslmode=verify-ca
		connect     *pgconn.ConnectError
	)
	return errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &connect) &&
		!slices.ContainsFunc(attempts(err), func(line string) bool { return !strings.Contains(line, refusedTLS) })
}
