package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"
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

// load returns what says how to encrypt a new connection, and has read the files once; nil if TLS is off.
func (c *tlsConfig) load() (func() (*tls.Config, error), error) {
	if !c.On {
		return nil, nil // which is how clients are told to do without
	}
	files := &tlsFiles{section: *c}
	if _, err := files.config(); err != nil {
		return nil, err
	}
	return files.config, nil
}

// tlsFiles is a tls section whose files are read again for each connection: a certificate that was renewed, or an authority that was
// added, needs no restart. A file that cannot be read, or a key that is not yet the new certificate's, fails the connection, which
// is tried again. It is safe for concurrent use.
type tlsFiles struct {
	section tlsConfig

	mu   sync.Mutex
	text [3][]byte   // of ca, cert and key
	last *tls.Config // made of text
}

// config returns the same pointer as long as the files are the same.
func (f *tlsFiles) config() (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text [3][]byte
	for i, file := range []struct{ key, name string }{{"ca", f.section.CA}, {"cert", f.section.Cert}, {"key", f.section.Key}} {
		if file.name == "" {
			continue
		}
		var err error
		if text[i], err = os.ReadFile(file.name); err != nil {
			return nil, fmt.Errorf("%s: %w", file.key, err)
		}
	}
	if f.last != nil && slices.EqualFunc(text[:], f.text[:], bytes.Equal) {
		return f.last, nil
	}
	config, err := f.section.config(text[0], text[1], text[2])
	if err != nil {
		return nil, err
	}
	f.text, f.last = text, config
	return config, nil
}

// config makes what crypto/tls takes of a section and the texts of its files.
func (c *tlsConfig) config(ca, cert, key []byte) (*tls.Config, error) {
	out := &tls.Config{ServerName: c.ServerName, InsecureSkipVerify: c.Insecure}
	if c.CA != "" {
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("ca: %s has no certificate in PEM format (-----BEGIN CERTIFICATE-----)", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert %s and key %s: %w", c.Cert, c.Key, err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
