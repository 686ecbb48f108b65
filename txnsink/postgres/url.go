package postgres

import (
	"net/url"
	"slices"
	"strings"
)

// sslModes are the values of sslmode that say whether a connection is encrypted. The others of libpq, allow and prefer, leave that to
// whoever answers: a server without TLS, or somebody between who says that it has none, gets everything in plain text.
var sslModes = []string{"disable", "require", "verify-ca", "verify-full"}

// CheckURL says whether a URL can be one of a database's, and does not leave it to the server whether the connection is
// encrypted. Its error does not show the URL, which may hold a password.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		// The parser's error repeats what it could not read, and that may be the password.
		return permanent("cannot be read as a URL; characters such as @ / # %% of a password must be percent-encoded, or come from ${NAME}, which encodes them")
	}
	if strings.Contains(u.Path, "@") {
		return permanent("has an @ behind its host; characters such as @ / # %% of a password must be percent-encoded, or come from ${NAME}, which encodes them")
	}
	for _, mode := range u.Query()["sslmode"] {
		switch {
		case slices.Contains(sslModes, mode):
		case mode == "allow" || mode == "prefer":
			return permanent("tls_configuration: has sslmode=%s, which goes on in plain text where TLS fails; it must be %s", mode, strings.Join(sslModes, ", "))
		default:
			return permanent("tls_configuration: has an sslmode that there is not; it must be %s", strings.Join(sslModes, ", "))
		}
	}
	return nil
}

// SaysTLS says whether a URL names an sslmode. Without one, TLS is used if the server offers it.
func SaysTLS(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Query().Has("sslmode")
}
