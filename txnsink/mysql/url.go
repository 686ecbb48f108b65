package mysql

import (
	"crypto/tls"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	defaultPort = "3306"
	dialTimeout = 10 * time.Second
)

// CheckURL says whether a URL can be one of a target's. Its error does not show it.
func CheckURL(text string) error {
	_, err := parseURL(text, nil)
	return err
}

// parseURL reads a URL as mysql://user:password@host:3306/database, or with mariadb://. t is how to speak TLS; nil: not at all. The
// URL takes no parameters: one that asks for TLS must not be read over. No error shows the URL, which holds the password.
func parseURL(text string, t *tls.Config) (*mysql.Config, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, permanent("cannot be read as a URL; characters such as @ / # %% of a password must be percent-encoded, or come from ${NAME} in the configuration")
	case strings.Contains(u.Path, "@"):
		return nil, permanent("has an @ behind its host; characters such as @ / # %% of a password must be percent-encoded, or come from ${NAME} in the configuration")
	case u.Scheme != "mysql" && u.Scheme != "mariadb":
		return nil, permanent("must begin with mysql:// or mariadb://")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, permanent("has parameters after the database's name, and takes none: TLS is set by target.tls")
	case u.Hostname() == "":
		return nil, permanent("names no host, as in mysql://user@host:3306/database")
	}
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" || strings.Contains(database, "/") {
		return nil, permanent("must name the database, as in mysql://user@host:3306/database: the replicator's own tables are in it")
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	c := mysql.NewConfig()
	c.User, c.DBName, c.Net, c.Addr = u.User.Username(), database, "tcp", net.JoinHostPort(u.Hostname(), port)
	if password, ok := u.User.Password(); ok {
		c.Passwd = password
	}
	c.Timeout = dialTimeout
	c.ClientFoundRows = true     // a statement's count is of the rows that it finds, changed or not
	c.InterpolateParams = true   // no prepared statements of our own
	c.MaxAllowedPacket = 1 << 30 // the protocol's bound; apply compares with the server's
	c.Collation = "utf8mb4_bin"  // of the server's default, literals in comparisons would take the collation
	c.Logger = &mysql.NopLogger{}
	if t != nil {
		t = t.Clone()
		if t.ServerName == "" {
			t.ServerName = u.Hostname()
		}
		c.TLS = t
	}
	return c, nil
}
