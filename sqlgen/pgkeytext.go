package sqlgen

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"replicator/schema"
)

// keyText decodes an encoded key for people, as in "id=5" or "a=1, b=x"; text is the dialect's for one value.
func keyText(t *Target, key []byte, text func(schema.Type, []byte) string) string {
	var b strings.Builder
	for i, c := range t.Key {
		if i > 0 {
			b.WriteString(", ")
		}
		var elem []byte
		_, elem, key = cut(key)
		b.WriteString(t.Columns[c].Name + "=" + text(t.Columns[c].Type, elem[4:]))
	}
	return clip(b.String())
}

func pgValueText(t schema.Type, v []byte) string {
	switch {
	case t.Kind == schema.Bool && len(v) == 1:
		return strconv.FormatBool(v[0] != 0)
	case t.Kind == schema.Int16 && len(v) == 2:
		return strconv.Itoa(int(int16(binary.BigEndian.Uint16(v))))
	case t.Kind == schema.Int32 && len(v) == 4:
		return strconv.Itoa(int(int32(binary.BigEndian.Uint32(v))))
	case t.Kind == schema.Int64 && len(v) == 8:
		return strconv.FormatInt(int64(binary.BigEndian.Uint64(v)), 10)
	case t.Kind == schema.Decimal && len(v) >= 8:
		return numericText(v)
	case t.Kind == schema.UUID && len(v) == 16:
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
	case t.Kind == schema.Date && len(v) == 4:
		return string(appendDays(nil, int64(int32(binary.BigEndian.Uint32(v)))+epochDays))
	case t.Kind == schema.Timestamp && len(v) == 8, t.Kind == schema.TimestampTZ && len(v) == 8:
		n := int64(binary.BigEndian.Uint64(v))
		days := int64(floorDiv(int(n), dayMicros))
		return string(appendMicros(append(appendDays(nil, days+epochDays), ' '), n-days*dayMicros))
	case wireOf(t).elem == pgText.elem || t.Kind == schema.Char:
		v = v[:min(len(v), 2*maxKeyText)]
		if !utf8.Valid(v) {
			v = []byte(strings.ToValidUTF8(string(v), ""))
		}
		return string(v)
	}
	return `\x` + hex.EncodeToString(v[:min(len(v), maxKeyText)])
}

// numericText writes a binary numeric's digits; see appendNumeric.
func numericText(v []byte) string {
	groups := int(binary.BigEndian.Uint16(v))
	weight := int(int16(binary.BigEndian.Uint16(v[2:])))
	switch sign := binary.BigEndian.Uint16(v[4:]); {
	case sign == 0xC000:
		return "NaN"
	case sign&0x8000 != 0:
		return "infinite"
	case len(v) < 8+2*groups || groups > maxKeyText || weight > maxKeyText || weight < -maxKeyText:
		return "?"
	}
	d := decimal{negative: v[4] == 0x40, scale: 4 * (groups - 1 - weight)}
	for g := range groups {
		d.digits += fmt.Sprintf("%04d", binary.BigEndian.Uint16(v[8+2*g:]))
	}
	d.digits = strings.TrimLeft(d.digits, "0")
	for d.scale > 0 && strings.HasSuffix(d.digits, "0") {
		d.digits, d.scale = d.digits[:len(d.digits)-1], d.scale-1
	}
	if d.digits == "" {
		return "0"
	}
	s, err := d.text()
	if err != nil {
		return "?"
	}
	return s
}
