package main

import (
	"strings"
	"testing"
)

// TestConfigErrorsOfTokens puts sections into minimal.
func TestConfigErrorsOfTokens(t *testing.T) {
	t.Parallel()
	for sasl, want := range map[string]string{
		"{mechanism: OAUTHBEARER, token_url: 'https://h/t', client_id: c, client_secret: sesame, scope: s, tls: {}}": "",
		"{mechanism: OAUTHBEARER, token_url: 'https://u:sesame@h/t', client_id: c, client_secret: sesame}":           "c.yaml:4: source.sasl.token_url: must not hold a user: the client's id and secret are given apart",
		"{mechanism: OAUTHBEARER, token_url: 'sesame', client_id: c, client_secret: sesame}":                         "c.yaml:4: source.sasl.token_url: must be a token endpoint's http://HOST/PATH or https://HOST/PATH",
		"{mechanism: OAUTHBEARER, client_id: c, client_secret: sesame}":                                              "c.yaml: source.sasl.token_url: is missing: where tokens come from, the token endpoint of OAuth 2.0",
		"{mechanism: OAUTHBEARER, token_url: 'https://h/t', client_secret: sesame}":                                  "c.yaml: source.sasl.client_id: is missing: who asks for tokens",
		"{mechanism: OAUTHBEARER, token_url: 'https://h/t', client_id: c}":                                           "c.yaml: source.sasl.client_secret: is missing: the client's, as in '${KAFKA_CLIENT_SECRET}'",
		"{mechanism: PLAIN, username: u, client_secret: sesame}":                                                     "c.yaml:4: source.sasl: token_url, client_id, client_secret, scope and tls are for mechanism: OAUTHBEARER alone",
	} {
		_, err := parseConfig("c.yaml", []byte(strings.Replace(minimal, "topics:", "sasl: "+sasl+"\n  topics:", 1)), nil, env())
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", sasl, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\n got %v\nwant %s", sasl, err, want)
		case err != nil && strings.Contains(err.Error(), "sesame"):
			t.Errorf("%s: the error shows the secret: %v", sasl, err)
		}
	}
}
