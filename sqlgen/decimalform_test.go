package sqlgen

import (
	"testing"

	"replicator/schema"
)

// TestFormOfSchemalessDecimalsIsShownByTheirValues: digits are base64 too, and 1234 is then another number.
func TestFormOfSchemalessDecimalsIsShownByTheirValues(t *testing.T) {
	t.Parallel()
	type step struct {
		scale   int
		v, want string
	}
	for name, steps := range map[string][]step{
		"nothing is shown":                      {{0, "1234", "1234"}, {0, "12345678", "12345678"}},
		"a point is digits, and none is base64": {{2, "12.34", "12.34"}, {2, "1234", "-26588.24"}, {2, "12e4", "-26604.24"}, {2, "+123", "-3036.89"}},
		"base64 is shown by another value":      {{0, "AJY=", "150"}, {0, "1234", "-2658824"}},
		"base64 is shown by another column":     {{2, "/w==", "-0.01"}, {0, "1234", "-2658824"}},
		"an exponent is base64":                 {{0, "12e4", "-2660424"}, {0, "1234", "-2658824"}},
		"digits are shown by another value":     {{0, "AJY=", "150"}, {0, "12345", "12345"}, {0, "1234", "1234"}},
		"digits are shown by a sign":            {{0, "-1234567", "-1234567"}, {0, "1234", "1234"}},
		"digits are shown by a small number":    {{8, "0E-8", "0.00000000"}, {0, "1234", "1234"}},
		"what is no number is digits":           {{2, "NaN", "NaN"}, {2, "Infinity", "Infinity"}},
	} {
		o := Options{Decimals: new(DecimalForm)}
		for i, s := range steps {
			got, err := encodeOne(anyField, schema.Type{Kind: schema.Decimal, Length: 20, Scale: s.scale}, "text", textValue(s.v), o)
			if err != nil || string(got) != s.want {
				t.Errorf("%s: step %d: %s is %s, %v, want %s", name, i, s.v, got, err, s.want)
			}
		}
	}
}
