package main

const (
	decimalSchema = `{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2","connect.decimal.precision":"10"}}`
	int16Schema   = `{"type":"int16"}`
	int32Schema   = `{"type":"int32"}`
	int64Schema   = `{"type":"int64"}`
	doubleSchema  = `{"type":"double"}`
	stringSchema  = `{"type":"string"}`
	bytesSchema   = `{"type":"bytes"}`
	pointSchema   = `{"type":"struct","name":"io.debezium.data.geometry.Point","fields":[{"type":"double","field":"x"},{"type":"double","field":"y"},{"type":"bytes","field":"wkb"},{"type":"int32","optional":true,"field":"srid"}]}`
	shapeSchema   = `{"type":"struct","name":"io.debezium.data.geometry.Geometry","fields":[{"type":"bytes","field":"wkb"},{"type":"int32","optional":true,"field":"srid"}]}`
	point         = `{"x":1.0,"y":2.0,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAABA","srid":null}`
	shape         = `{"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAABA","srid":4326}`
)

// semantic is the schema of a field with a semantic name.
func semantic(primitive, name string) string {
	return `{"type":"` + primitive + `","name":"` + name + `"}`
}

// propagated is a field's schema with the source column's type, as datatype.propagate.source.type adds it.
func propagated(schema, columnType string) string {
	return schema[:len(schema)-1] + `,"parameters":{"__debezium.source.column.type":"` + columnType +
		`","__debezium.source.column.length":"131089","__debezium.source.column.scale":"0"}}`
}

// typeSections is every type that docs/types.md describes.
var typeSections = []typeSection{
	{"MySQL and MariaDB, with the schema-change topic", "mysql", []typeRow{
		{"TINYINT", int16Schema, `-128`, `"typeName":"TINYINT"`},
		{"TINYINT(1), BOOLEAN", int16Schema, `1`, `"typeName":"TINYINT","length":1`},
		{"TINYINT UNSIGNED", int16Schema, `255`, `"typeName":"TINYINT UNSIGNED"`},
		{"SMALLINT", int16Schema, `-32768`, `"typeName":"SMALLINT"`},
		{"SMALLINT UNSIGNED", int32Schema, `65535`, `"typeName":"SMALLINT UNSIGNED"`},
		{"MEDIUMINT", int32Schema, `-8388608`, `"typeName":"MEDIUMINT"`},
		{"MEDIUMINT UNSIGNED", int32Schema, `16777215`, `"typeName":"MEDIUMINT UNSIGNED"`},
		{"INT", int32Schema, `-2147483648`, `"typeName":"INT"`},
		{"INT UNSIGNED", int64Schema, `4294967295`, `"typeName":"INT UNSIGNED"`},
		{"BIGINT", int64Schema, `-9223372036854775808`, `"typeName":"BIGINT"`},
		{"BIGINT UNSIGNED, `bigint.unsigned.handling.mode=long`", int64Schema, `-1`, `"typeName":"BIGINT UNSIGNED"`},
		{"BIGINT UNSIGNED, `precise`", `{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"0"}}`, `"AP//////////"`, `"typeName":"BIGINT UNSIGNED"`},
		{"DECIMAL(10,2), `decimal.handling.mode=precise`", decimalSchema, `"/w=="`, `"typeName":"DECIMAL","length":10,"scale":2`},
		{"DECIMAL(10,2), `string`", stringSchema, `"-0.01"`, `"typeName":"DECIMAL","length":10,"scale":2`},
		{"DECIMAL(10,2), `double` (the connector rounds to 16 digits)", doubleSchema, `-0.01`, `"typeName":"DECIMAL","length":10,"scale":2`},
		{"FLOAT", `{"type":"float"}`, `0.1`, `"typeName":"FLOAT"`},
		{"DOUBLE", doubleSchema, `1.7976931348623157E308`, `"typeName":"DOUBLE"`},
		{"BIT(1)", `{"type":"boolean"}`, `true`, `"typeName":"BIT","length":1`},
		{"BIT(9)", `{"type":"bytes","name":"io.debezium.data.Bits","parameters":{"length":"9"}}`, `"VQE="`, `"typeName":"BIT","length":9`},
		{"YEAR", semantic("int32", "io.debezium.time.Year"), `2155`, `"typeName":"YEAR"`},
		{"DATE", semantic("int32", "io.debezium.time.Date"), `19782`, `"typeName":"DATE"`},
		{"DATE, `time.precision.mode=connect`", semantic("int32", "org.apache.kafka.connect.data.Date"), `-354285`, `"typeName":"DATE"`},
		{"DATE, `isostring`", semantic("string", "io.debezium.time.IsoDate"), `"2024-02-29Z"`, `"typeName":"DATE"`},
		{"TIME(6)", semantic("int64", "io.debezium.time.MicroTime"), `-3020399000000`, `"typeName":"TIME","length":6`},
		{"TIME(3), `connect` (null outside a day)", semantic("int32", "org.apache.kafka.connect.data.Time"), `86399999`, `"typeName":"TIME","length":3`},
		{"TIME(6), `isostring` (null outside a day)", semantic("string", "io.debezium.time.IsoTime"), `"23:59:59.999999Z"`, `"typeName":"TIME","length":6`},
		{"DATETIME(3)", semantic("int64", "io.debezium.time.Timestamp"), `1709210096789`, `"typeName":"DATETIME","length":3`},
		{"DATETIME(6)", semantic("int64", "io.debezium.time.MicroTimestamp"), `1709210096789012`, `"typeName":"DATETIME","length":6`},
		{"DATETIME(3), `connect`", semantic("int64", "org.apache.kafka.connect.data.Timestamp"), `1709210096789`, `"typeName":"DATETIME","length":3`},
		{"DATETIME(6), `isostring`", semantic("string", "io.debezium.time.IsoTimestamp"), `"2024-02-29T12:34:56.789012Z"`, `"typeName":"DATETIME","length":6`},
		{"TIMESTAMP(6)", semantic("string", "io.debezium.time.ZonedTimestamp"), `"2024-02-29T12:34:56.789012Z"`, `"typeName":"TIMESTAMP","length":6`},
		{"CHAR(4)", stringSchema, `"ab"`, `"typeName":"CHAR","length":4`},
		{"VARCHAR(20)", stringSchema, `"Café 💛"`, `"typeName":"VARCHAR","length":20`},
		{"TINYTEXT, TEXT, MEDIUMTEXT, LONGTEXT", stringSchema, `"text"`, `"typeName":"LONGTEXT"`},
		{"BINARY(4), VARBINARY, BLOB", bytesSchema, `"3q2+7w=="`, `"typeName":"BINARY","length":4`},
		{"BINARY(4), `binary.handling.mode=base64`", stringSchema, `"3q2+7w=="`, `"typeName":"BINARY","length":4`},
		{"ENUM", `{"type":"string","name":"io.debezium.data.Enum","parameters":{"allowed":"a,b,c\\,d"}}`, `"c,d"`, `"typeName":"ENUM","enumValues":["'a'","'b'","'c,d'"]`},
		{"SET", `{"type":"string","name":"io.debezium.data.EnumSet","parameters":{"allowed":"x,y,z"}}`, `"x,z"`, `"typeName":"SET","enumValues":["'x'","'y'","'z'"]`},
		{"JSON", semantic("string", "io.debezium.data.Json"), `"{\"b\":1.50}"`, `"typeName":"JSON"`},
		{"POINT", pointSchema, point, `"typeName":"POINT"`},
		{"GEOMETRY and its kinds", shapeSchema, shape, `"typeName":"GEOMETRY"`},
		{"VECTOR(3)", `{"type":"array","name":"io.debezium.data.FloatVector","items":{"type":"float"}}`, `[1.0,2.5,-3.0]`, `"typeName":"VECTOR","length":3`},
		{"UUID (MariaDB)", stringSchema, `"00112233-4455-6677-8899-aabbccddeeff"`, `"typeName":"UUID"`},
		{"INET4 (MariaDB)", stringSchema, `"192.0.2.1"`, `"typeName":"INET4"`},
		{"INET6 (MariaDB)", stringSchema, `"2001:db8::1"`, `"typeName":"INET6"`},
	}},
	{"PostgreSQL", "postgresql", []typeRow{
		{"boolean", `{"type":"boolean"}`, `true`, ""},
		{"smallint", int16Schema, `-32768`, ""},
		{"integer", int32Schema, `-2147483648`, ""},
		{"bigint", int64Schema, `-9223372036854775808`, ""},
		{"real", `{"type":"float"}`, `"-Infinity"`, ""},
		{"double precision", doubleSchema, `"NaN"`, ""},
		{"numeric(10,2), `decimal.handling.mode=precise`", decimalSchema, `"/nlh"`, ""},
		{"numeric, `precise` (NaN is sent as null)", `{"type":"struct","name":"io.debezium.data.VariableScaleDecimal","fields":[{"type":"int32","field":"scale"},{"type":"bytes","field":"value"}]}`, `{"scale":21,"value":"AQ=="}`, ""},
		{"numeric, `string`, with propagated types", propagated(stringSchema, "NUMERIC"), `"NaN"`, ""},
		{"numeric, `double`, with propagated types", propagated(doubleSchema, "NUMERIC"), `0.1`, ""},
		{"money", `{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}}`, `"/2o="`, ""},
		{"char, varchar, text, citext, tsquery, other types as text", stringSchema, `"Ci"`, ""},
		{"bytea", bytesSchema, `"3q2+7w=="`, ""},
		{"uuid", semantic("string", "io.debezium.data.Uuid"), `"00112233-4455-6677-8899-AABBCCDDEEFF"`, ""},
		{"json, jsonb", semantic("string", "io.debezium.data.Json"), `"{\"a\":1}"`, ""},
		{"hstore, `hstore.handling.mode=map`", `{"type":"map","keys":{"type":"string"},"values":{"type":"string","optional":true}}`, `{"a":"1","b":null}`, ""},
		{"hstore, `json`", semantic("string", "io.debezium.data.Json"), `"{\"a\":\"1\",\"b\":null}"`, ""},
		{"xml", semantic("string", "io.debezium.data.Xml"), `"<a/>"`, ""},
		{"ltree", semantic("string", "io.debezium.data.Ltree"), `"a.b"`, ""},
		{"enum", `{"type":"string","name":"io.debezium.data.Enum","parameters":{"allowed":"sad,ok"}}`, `"ok"`, ""},
		{"inet, with propagated types (else text)", propagated(stringSchema, "INET"), `"10.0.0.1/8"`, ""},
		{"cidr, likewise", propagated(stringSchema, "CIDR"), `"10.0.0.0/8"`, ""},
		{"macaddr, likewise", propagated(stringSchema, "MACADDR"), `"08:00:2b:01:02:03"`, ""},
		{"int4range and the other ranges, likewise", propagated(stringSchema, "INT4RANGE"), `"[1,5)"`, ""},
		{"tsvector, by newer connectors", semantic("string", "io.debezium.data.Tsvector"), `"'a':1 'b':2"`, ""},
		{"tsvector, by older ones, likewise", propagated(stringSchema, "TSVECTOR"), `"'a':1 'b':2"`, ""},
		{"date", semantic("int32", "io.debezium.time.Date"), `-735160`, ""},
		{"date 'infinity'", semantic("int32", "io.debezium.time.Date"), `-622191234`, ""},
		{"date, `time.precision.mode=isostring`", semantic("string", "io.debezium.time.IsoDate"), `"-0043-03-15Z"`, ""},
		{"time", semantic("int64", "io.debezium.time.MicroTime"), `86400000000`, ""},
		{"timetz (the connector moves it to UTC)", semantic("string", "io.debezium.time.ZonedTime"), `"10:00:00.5Z"`, ""},
		{"timestamp", semantic("int64", "io.debezium.time.MicroTimestamp"), `-63517824000000000`, ""},
		{"timestamp '-infinity'", semantic("int64", "io.debezium.time.MicroTimestamp"), `-9223372036832400000`, ""},
		{"timestamptz", semantic("string", "io.debezium.time.ZonedTimestamp"), `"+294276-12-31T23:59:59.999999Z"`, ""},
		{"timestamptz 'infinity'", semantic("string", "io.debezium.time.ZonedTimestamp"), `"infinity"`, ""},
		{"interval, `interval.handling.mode=numeric` (months become days)", semantic("int64", "io.debezium.time.MicroDuration"), `37091106789000`, ""},
		{"interval, `string`", semantic("string", "io.debezium.time.Interval"), `"P1Y2M-3DT4H5M-6.789S"`, ""},
		{"bit(5)", `{"type":"bytes","name":"io.debezium.data.Bits","parameters":{"length":"5"}}`, `"FQ=="`, ""},
		{"bit varying (zeros in front are not sent)", `{"type":"bytes","name":"io.debezium.data.Bits","parameters":{"length":"2147483647"}}`, `"BQ=="`, ""},
		{"point", pointSchema, point, ""},
		{"geometry (PostGIS)", shapeSchema, shape, ""},
		{"geography (PostGIS)", `{"type":"struct","name":"io.debezium.data.geometry.Geography","fields":[{"type":"bytes","field":"wkb"},{"type":"int32","optional":true,"field":"srid"}]}`, shape, ""},
		{"vector (pgvector)", `{"type":"array","name":"io.debezium.data.DoubleVector","items":{"type":"double"}}`, `[0.1,-2.5]`, ""},
		{"integer[]", `{"type":"array","items":{"type":"int32","optional":true}}`, `[1,null,3]`, ""},
		{"text[]", `{"type":"array","items":{"type":"string","optional":true}}`, `["a,b",null,"NULL",""]`, ""},
		{"numeric(10,2)[]", `{"type":"array","items":` + decimalSchema + `}`, `["/nlh",null]`, ""},
		{"bytea[]", `{"type":"array","items":{"type":"bytes"}}`, `["3q2+7w=="]`, ""},
		{"jsonb[]", `{"type":"array","items":` + semantic("string", "io.debezium.data.Json") + `}`, `["{\"k\":1}"]`, ""},
		{"uuid[]", `{"type":"array","items":` + semantic("string", "io.debezium.data.Uuid") + `}`, `["00112233-4455-6677-8899-aabbccddeeff"]`, ""},
		{"time[]", `{"type":"array","items":` + semantic("int64", "io.debezium.time.MicroTime") + `}`, `[1500000]`, ""},
		{"timestamptz[]", `{"type":"array","items":` + semantic("string", "io.debezium.time.ZonedTimestamp") + `}`, `["2024-02-29T10:34:56Z",null]`, ""},
	}},
	{"SQL Server, Oracle and others", "sqlserver", []typeRow{
		{"bit (SQL Server)", `{"type":"boolean"}`, `true`, ""},
		{"tinyint (SQL Server)", int16Schema, `255`, ""},
		{"smallint, int, bigint (SQL Server)", int64Schema, `-9223372036854775808`, ""},
		{"float (SQL Server), BINARY_DOUBLE (Oracle)", doubleSchema, `1.7976931348623157E308`, ""},
		{"real (SQL Server), BINARY_FLOAT (Oracle)", `{"type":"float"}`, `"-Infinity"`, ""},
		{"money (SQL Server)", `{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"4","connect.decimal.precision":"19"}}`, `"gAAAAAAAAAA="`, ""},
		{"smallmoney (SQL Server)", `{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"4","connect.decimal.precision":"10"}}`, `"gAAAAA=="`, ""},
		{"char, varchar, nchar, nvarchar, VARCHAR2, CLOB", stringSchema, `"Ж"`, ""},
		{"xml (SQL Server), XMLTYPE (Oracle)", semantic("string", "io.debezium.data.Xml"), `"<a/>"`, ""},
		{"binary, varbinary, rowversion, RAW, BLOB", bytesSchema, `"AAAAAAAAB9E="`, ""},
		{"date (SQL Server)", semantic("int32", "io.debezium.time.Date"), `-719162`, ""},
		{"DATE, TIMESTAMP(0..3) (Oracle), smalldatetime", semantic("int64", "io.debezium.time.Timestamp"), `1709210040000`, ""},
		{"datetime2(6), TIMESTAMP(6)", semantic("int64", "io.debezium.time.MicroTimestamp"), `1709210096789012`, ""},
		{"one byte (Db2, Vitess)", `{"type":"int8"}`, `-128`, ""},
		{"datetime, datetime2(3)", semantic("int64", "io.debezium.time.Timestamp"), `1709210096789`, ""},
		{"datetime2(7), TIMESTAMP(9)", semantic("int64", "io.debezium.time.NanoTimestamp"), `1648811502929775100`, ""},
		{"datetimeoffset(7), TIMESTAMP WITH TIME ZONE", semantic("string", "io.debezium.time.ZonedTimestamp"), `"2022-04-01T11:11:42.9297751+02:00"`, ""},
		{"time(3)", semantic("int32", "io.debezium.time.Time"), `86399999`, ""},
		{"time(6)", semantic("int64", "io.debezium.time.MicroTime"), `86399999999`, ""},
		{"time(7)", semantic("int64", "io.debezium.time.NanoTime"), `40302929775100`, ""},
		{"TIMESTAMP WITH LOCAL TIME ZONE (Oracle)", semantic("string", "io.debezium.time.ZonedTimestamp"), `"2022-04-01T09:11:42.929775Z"`, ""},
		{"time, `time.precision.mode=isostring`", semantic("string", "io.debezium.time.IsoTime"), `"11:11:42.9297751Z"`, ""},
		{"uniqueidentifier", stringSchema, `"00112233-4455-6677-8899-AABBCCDDEEFF"`, ""},
		{"NUMBER (Oracle)", `{"type":"struct","name":"io.debezium.data.VariableScaleDecimal","fields":[{"type":"int32","field":"scale"},{"type":"bytes","field":"value"}]}`, `{"scale":-3,"value":"Bw=="}`, ""},
		{"NUMBER(10,2) (Oracle)", decimalSchema, `"/nlh"`, ""},
		{"NUMBER(p), p up to 2, 4, 9 or 18 (Oracle)", `{"type":"int8"}`, `-99`, ""},
		{"NUMBER, `decimal.handling.mode=string`, with propagated types", propagated(stringSchema, "NUMBER"), `"0.1"`, ""},
		{"money, `double`, with propagated types", propagated(doubleSchema, "money"), `-1.5`, ""},
		{"uniqueidentifier, with propagated types", propagated(stringSchema, "uniqueidentifier"), `"00112233-4455-6677-8899-AABBCCDDEEFF"`, ""},
		{"ROWID, UROWID (Oracle)", stringSchema, `"AAAR3sAAEAAAACXAAA"`, ""},
		{"INTERVAL YEAR TO MONTH, DAY TO SECOND (Oracle)", semantic("int64", "io.debezium.time.MicroDuration"), `37091106789000`, ""},
		{"INTERVAL, `interval.handling.mode=string`", semantic("string", "io.debezium.time.Interval"), `"P0Y0M3DT4H5M6.789S"`, ""},
		{"INTERVAL DAY TO SECOND in nanoseconds", semantic("int64", "io.debezium.time.NanoDuration"), `-1500000000`, ""},
		{"a struct", `{"type":"struct","fields":[{"type":"int32","field":"a"}]}`, `{"a":1}`, ""},
	}},
}
