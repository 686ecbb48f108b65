package sqlgen

import (
	"bytes"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"replicator/debezium"
)

// FuzzFold plays a random history of a table with a key, and compares the fold with the rows that the source has.
func FuzzFold(f *testing.F) {
	f.Add(uint64(1), uint8(0))
	f.Add(uint64(99), uint8(4))
	f.Fuzz(func(t *testing.T, seed uint64, which uint8) {
		target := mustTarget(t, itemTable("id"))
		all := scenarios(seed)
		sc := all[int(which)%len(all)]
		s := newStore(target)
		h := sc.play(t, 6, target, func(c Changes, _ []Statement) error { return s.apply(c) })
		if got, want := s.content(), h.wanted(target); !slices.Equal(got, want) {
			t.Fatalf("%+v:\n got %v\nwant %v", sc, got, want)
		}
	})
}

// FuzzQuote reads a quoted identifier back as PostgreSQL's scanner does.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"a", `we"ird`, `""`, "a b", "$1", `\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		q := Postgres{}.Quote(name)
		inner, ok := strings.CutPrefix(q, `"`)
		if !ok {
			t.Fatalf("%q does not begin with a quote", q)
		}
		var read strings.Builder
		for {
			i := strings.IndexByte(inner, '"')
			if i < 0 {
				t.Fatalf("%q does not end", q)
			}
			read.WriteString(inner[:i])
			if inner = inner[i+1:]; !strings.HasPrefix(inner, `"`) {
				break
			}
			read.WriteByte('"')
			inner = inner[1:]
		}
		if inner != "" || read.String() != name {
			t.Fatalf("%q reads as %q with %q left over", q, read.String(), inner)
		}
	})
}

// FuzzDecimal compares two's complements with math/big, and the digits of the binary numeric with those of the text.
func FuzzDecimal(f *testing.F) {
	for _, b := range [][]byte{{0}, {0xFF}, {0x80}, {0, 0x80, 0}, {0xFF, 0, 1}, []byte("\x80\x00\x00\x00\x00\x00\x00\x00"), []byte("123456789abc")} {
		f.Add(b, int8(2))
	}
	f.Fuzz(func(t *testing.T, b []byte, scale int8) {
		if len(b) > 40 {
			return
		}
		want := new(big.Int).SetBytes(b)
		if len(b) > 0 && b[0]&0x80 != 0 {
			want.Sub(want, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		v := textValue(base64.StdEncoding.EncodeToString(b))
		d, err := decimalBytes(&v, int(scale))
		if err != nil {
			t.Fatal(err)
		}
		text, err := d.text()
		if err != nil {
			t.Fatal(err)
		}
		oracle := new(big.Rat).SetInt(want)
		shift := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(scale, -scale))), nil))
		if scale < 0 {
			oracle.Mul(oracle, shift)
		} else {
			oracle.Quo(oracle, shift)
		}
		if got, ok := new(big.Rat).SetString(text); !ok || got.Cmp(oracle) != 0 {
			t.Fatalf("%x scale %d: got %s, want %s", b, scale, text, oracle)
		}
		again, ok := parseDecimal(text)
		if !ok {
			t.Fatalf("%q is not read again", text)
		}
		first, err := appendNumeric(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		second, err := appendNumeric(nil, again)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := canonicalNumeric(nil, first), canonicalNumeric(nil, second); string(a) != string(b) {
			t.Fatalf("%s: %x is not %x", text, a, b)
		}
		if got, ok := new(big.Rat).SetString(numericText(first)); ok && got.Cmp(oracle) != 0 {
			t.Fatalf("%x: the numeric reads as %s, want %s", first, numericText(first), text)
		}
	})
}

// FuzzEncode lets no text crash an encoder.
func FuzzEncode(f *testing.F) {
	for _, c := range encodeCases() {
		f.Add(c.v.Text, c.v.Num)
	}
	f.Fuzz(func(t *testing.T, s string, n int64) {
		for _, c := range encodeCases() {
			for _, v := range []debezium.Value{textValue(s), digits(s), intValue(n), {Kind: debezium.BytesValue, Text: s}, list(textValue(s)), object("wkb", textValue(s), "srid", intValue(n), "scale", intValue(n), "value", textValue(s))} {
				got, err := encodeOne(c.f, c.witness, c.column, v, Options{})
				if err != nil && err.Error() == "" {
					t.Fatal("an error without a text")
				}
				again, err2 := encodeOne(c.f, c.witness, c.column, v, Options{})
				if !bytes.Equal(again, got) || (err2 == nil) != (err == nil) {
					t.Fatalf("%v into %s: %x, %v, then %x, %v", v, c.column, got, err, again, err2)
				}
			}
		}
		p := PostgresType(s)
		if p.Native != s {
			t.Fatalf("%q became %q", s, p.Native)
		}
		short := Postgres{}.ShortName(s)
		if len(short) > pgMaxIdentifier || len(s) <= pgMaxIdentifier && short != s || utf8.ValidString(s) && !utf8.ValidString(short) || (Postgres{}).ShortName(short) != short {
			t.Fatalf("the short name of %q is %q", s, short)
		}
	})
}
