package kafka

import (
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	scheme           = "kafka://"
	defaultPort      = "9092"
	defaultMechanism = "SCRAM-SHA-512"
)

// mechanisms are the ways of logging in that are served.
const mechanisms = "PLAIN, SCRAM-SHA-256, " + defaultMechanism

// controlSuffix is what the control topic is called beside the URL's.
const controlSuffix = ".replicator"

// topicNames are what Kafka takes for a topic, with room for controlSuffix.
var topicNames = regexp.MustCompile(`^[A-Za-z0-9._-]{1,238}$`)

// address is what a URL says.
type address struct {
	brokers []string
	topic   string
	login   sasl.Mechanism // nil: none
}

// CheckURL says whether a URL can be one of a target's. Its error does not show it.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

// Places returns the brokers that a URL names, and the topics that are written to: the URL's own and the control topic.
func Places(text string) (brokers, topics []string, err error) {
	a, err := parseURL(text)
	return a.brokers, []string{a.topic, a.topic + controlSuffix}, err
}

// parseURL reads a URL as kafka://user:password@host:9092,host:9092/topic?mechanism=SCRAM-SHA-256. No error shows the URL, which may
// hold the password.
func parseURL(text string) (address, error) {
	rest, ok := strings.CutPrefix(text, scheme)
	if !ok {
		return address{}, permanent("must begin with kafka://")
	}
	rest, parameters, _ := strings.Cut(rest, "?")
	at := strings.LastIndexByte(rest, '/')
	if at < 0 || !topicNames.MatchString(rest[at+1:]) || strings.Trim(rest[at+1:], ".") == "" {
		return address{}, permanent("must end in the name of a topic, of at most 238 of the letters A-Z a-z 0-9 . _ -, as in kafka://host:9092/changes")
	}
	a := address{topic: rest[at+1:]}
	user, hosts := "", rest[:at]
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		user, hosts = hosts[:i], hosts[i+1:]
	}
	for _, b := range strings.Split(hosts, ",") {
		host, port, err := net.SplitHostPort(b)
		if err != nil {
			host, port = b, defaultPort
		}
		if host == "" || strings.ContainsAny(host, "/@?# ") || strings.Contains(host, ":") && err != nil {
			return address{}, permanent("must name brokers as HOST:PORT, with commas between them, as in kafka://host1:9092,host2:9092/changes; " +
				"characters such as @ / # %% of a password must be percent-encoded, or come from ${NAME} in the configuration")
		}
		a.brokers = append(a.brokers, net.JoinHostPort(host, port))
	}
	var err error
	a.login, err = parseLogin(user, parameters)
	return a, err
}

func parseLogin(user, parameters string) (sasl.Mechanism, error) {
	query, err := url.ParseQuery(parameters)
	if err != nil {
		return nil, permanent("has parameters that cannot be read")
	}
	mechanism := query.Get("mechanism")
	query.Del("mechanism")
	switch {
	case len(query) > 0:
		return nil, permanent("takes one parameter, mechanism; TLS is set by target.tls")
	case user == "" && mechanism != "":
		return nil, permanent("has a mechanism to log in and no user")
	case user == "":
		return nil, nil
	case mechanism == "":
		mechanism = defaultMechanism
	}
	name, password, _ := strings.Cut(user, ":")
	name, err1 := url.PathUnescape(name)
	password, err2 := url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return nil, permanent("has a user or a password with a %% that is not percent-encoded")
	}
	switch mechanism {
	case "PLAIN":
		return plain.Auth{User: name, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: name, Pass: password}.AsSha256Mechanism(), nil
	case defaultMechanism:
		return scram.Auth{User: name, Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, permanent("has a mechanism that is none of %s", mechanisms)
}
