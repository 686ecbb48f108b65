package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"strings"
)

// maxExponent bounds the exponent of numbers that are compared by value: 1e1000000000 is a short text and a long number.
const maxExponent = 400

// equalJSON says whether two texts are the same document: the order of members does not matter, nor how a number is written.
func equalJSON(a, b string) bool {
	x, errX := canonicalJSON(a)
	y, errY := canonicalJSON(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func canonicalJSON(s string) ([]byte, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the document")
	}
	return json.Marshal(tagged(v)) // sorts members
}

// tagged makes numbers of v texts of the fractions that they are, and marks texts so that they are none.
func tagged(v any) any {
	switch v := v.(type) {
	case json.Number:
		return "n" + fraction(v.String())
	case string:
		return "s" + v
	case []any:
		for i := range v {
			v[i] = tagged(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = tagged(v[k])
		}
	}
	return v
}

func fraction(number string) string {
	if _, exponent, ok := strings.Cut(strings.ToLower(number), "e"); ok {
		n, ok := new(big.Int).SetString(exponent, 10)
		if !ok || !n.IsInt64() || n.Int64() > maxExponent || n.Int64() < -maxExponent {
			return number
		}
	}
	if r, ok := new(big.Rat).SetString(number); ok {
		return r.RatString()
	}
	return number
}
