package debezium

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
)

// appendJSON writes a value as Kafka Connect's JSON converter does. Schema changes are read from it, whatever they came
// in.
func appendJSON(dst []byte, v *Value) []byte {
	switch v.Kind {
	case BoolValue:
		return strconv.AppendBool(dst, v.Num == 1)
	case IntValue:
		return strconv.AppendInt(dst, v.Num, 10)
	case NumberValue:
		return append(dst, v.Text...)
	case StringValue:
		return appendJSONString(dst, v.Text)
	case BytesValue:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, []byte(v.Text))
		return append(dst, '"')
	case ListValue:
		return appendJSONList(dst, v.List)
	}
	return append(dst, "null"...)
}

func appendJSONList(dst []byte, l *List) []byte {
	open, end := byte('['), byte(']')
	if l.Names != nil {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	for i := range l.Values {
		if i > 0 {
			dst = append(dst, ',')
		}
		if l.Names != nil {
			dst = append(appendJSONString(dst, l.Names[i]), ':')
		}
		dst = appendJSON(dst, &l.Values[i])
	}
	return append(dst, end)
}

func appendJSONString(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // never: a string is always JSON
		return append(dst, `""`...)
	}
	return append(dst, b...)
}
