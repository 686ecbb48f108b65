package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"replicator/debezium/kafka"
)

// tlsConfig is a tls section of the configuration.
type tlsConfig struct {
	On         bool // there is one
	CA         string
	Cert, Key  string
	ServerName string
	Insecure   bool
}

// tlsSection is a section that turns TLS on by being there, even without a key: tls: {}.
type tlsSection struct{ p *tlsConfig }

// tlsKeys are the keys of a tls section.
func tlsKeys(c *tlsConfig) section {
	return section{
		{name: "ca", value: word(&c.CA)},
		{name: "cert", value: word(&c.Cert)},
		{name: "key", value: word(&c.Key)},
		{name: "server_name", value: word(&c.ServerName)},
		{name: "insecure_skip_verify", value: boolean(&c.Insecure)},
	}
}

func (s tlsSection) set(d *document, n *yaml.Node, path string) {
	n = resolve(n)
	if isNull(n) {
		return
	}
	s.p.On = true
	tlsKeys(s.p).set(d, n, path)
	if (s.p.Cert == "") != (s.p.Key == "") {
		d.fail(n, path, "cert and key go together: the certificate that this client shows, and its private key")
	}
	if s.p.Insecure && (s.p.CA != "" || s.p.ServerName != "") {
		d.fail(n, path, "ca and server_name have no effect with insecure_skip_verify: true, which trusts any server")
	}
}

// load reads the files; nil if TLS is off.
func (c *tlsConfig) load() (*tls.Config, error) {
	if !c.On {
		return nil, nil // which is how Go's clients are told to do without
	}
	out := &tls.Config{ServerName: c.ServerName, InsecureSkipVerify: c.Insecure}
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca: %s has no certificate in PEM format (-----BEGIN CERTIFICATE-----)", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("cert %s and key %s: %w", c.Cert, c.Key, err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// saslMechanism is a way of logging in to Kafka, or nothing.
func saslMechanism(s string) error {
	switch {
	case s == "" || slices.Contains(kafka.Mechanisms, s):
		return nil
	case s == "OAUTHBEARER" || s == "GSSAPI":
		return fmt.Errorf("is not yet served by this version; %s", mustBe(kafka.Mechanisms))
	}
	return errors.New("is none of its values; " + mustBe(kafka.Mechanisms))
}
