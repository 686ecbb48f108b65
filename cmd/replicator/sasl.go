package main

import (
	"errors"
	"slices"
	"strings"

	"replicator/debezium/kafka"
)

const mechanismOAuth = "OAUTHBEARER"

// saslKeys are the keys of source.sasl.
func saslKeys(c *sourceConfig) section {
	return section{
		{name: "mechanism", value: word(&c.SASL.Mechanism, saslMechanism)},
		{name: "username", value: word(&c.SASL.Username)},
		{name: "password", value: secretWord(&c.SASL.Password)},
		{name: "token_url", value: tokenURL(&c.SASL.OAuth.TokenURL)},
		{name: "client_id", value: word(&c.SASL.OAuth.ClientID)},
		{name: "client_secret", value: secretWord(&c.SASL.OAuth.ClientSecret)},
		{name: "scope", value: word(&c.SASL.OAuth.Scope)},
		{name: "tls", value: tlsSection{&c.TokenTLS}},
	}
}

// saslMechanism is a way of logging in to Kafka, or nothing.
func saslMechanism(s string) error {
	if s == "" || slices.Contains(kafka.Mechanisms, s) {
		return nil
	}
	return errors.New("is none of its values; " + mustBe(kafka.Mechanisms))
}

// tokenURL is a token endpoint's address, or nothing. Its query may hold what is not to be shown.
func tokenURL(p *string) secret {
	return func(s string) error {
		if s != "" {
			if err := kafka.CheckTokenURL(s); err != nil {
				return err
			}
		}
		*p = s
		return nil
	}
}

// checkSASL says what source.sasl lacks, and what in it has no effect.
func checkSASL(c *sourceConfig, d *document) {
	o := &c.SASL.OAuth
	oauth := o.TokenURL + o.ClientID + o.ClientSecret + o.Scope
	switch {
	case c.SASL.Mechanism == "" && (c.SASL.Username != "" || oauth != ""):
		d.missing("source.sasl.mechanism", "the way to log in, "+mustBe(kafka.Mechanisms))
	case c.SASL.Mechanism == mechanismOAuth:
		for _, needed := range []struct{ key, value, why string }{
			{"token_url", o.TokenURL, "where tokens come from, the token endpoint of OAuth 2.0"},
			{"client_id", o.ClientID, "who asks for tokens"},
			{"client_secret", o.ClientSecret, "the client's, as in '${KAFKA_CLIENT_SECRET}'"},
		} {
			if needed.value == "" {
				d.missing("source.sasl."+needed.key, needed.why)
			}
		}
		if c.TokenTLS.On && !strings.HasPrefix(o.TokenURL, "https://") {
			d.missing("source.sasl.token_url", "source.sasl.tls needs one that begins with https://")
		}
	case c.SASL.Mechanism != "" && c.SASL.Username == "":
		d.missing("source.sasl.username", "the user to log in as")
	case oauth != "" || c.TokenTLS.On:
		d.fail(member(member(d.root, "source"), "sasl"), "source.sasl", "token_url, client_id, client_secret, scope and tls are for mechanism: %s alone", mechanismOAuth)
	}
}
