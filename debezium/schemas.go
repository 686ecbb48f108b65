package debezium

import (
	"context"
	"errors"
	"fmt"
)

// Format is what the bytes of keys and values are.
type Format uint8

// The formats. Auto tells by the bytes of each key and value: JSON never begins with the byte 0 that a schema
// registry's serializers write first, and Apicurio's ids in headers are nothing but theirs. Which of the registry's formats
// it is the schema says.
const (
	Auto Format = iota
	JSON
	Avro
	Protobuf
)

func (f Format) String() string {
	switch f {
	case JSON:
		return "json"
	case Avro:
		return "avro"
	case Protobuf:
		return "protobuf"
	}
	return "auto"
}

// IDKind says which of a registry's numbers a SchemaID is.
type IDKind uint8

// The kinds of ids that Avro and Protobuf records carry.
const (
	WireID    IDKind = iota + 1 // 4 bytes after the byte 0: Confluent's wire format, which Apicurio can write too
	LongID                      // 8 bytes after the byte 0: Apicurio's own format
	GlobalID                    // in the header apicurio.key.globalId or apicurio.value.globalId
	ContentID                   // in the header apicurio.key.contentId or apicurio.value.contentId
)

// SchemaID is the id of a schema in a registry.
type SchemaID struct {
	Kind IDKind
	ID   int64
}

func (id SchemaID) String() string {
	switch id.Kind {
	case LongID:
		return fmt.Sprintf("%d (of 8 bytes)", id.ID)
	case GlobalID:
		return fmt.Sprintf("%d (Apicurio's global id)", id.ID)
	case ContentID:
		return fmt.Sprintf("%d (Apicurio's content id)", id.ID)
	}
	return fmt.Sprint(id.ID)
}

// Registered is a schema as a registry has it.
type Registered struct {
	Format Format // Avro or Protobuf
	Text   string
	// Imports are the texts of the files that a Protobuf schema imports, as far as the registry has them, by the names that
	// it gives them.
	Imports map[string]string
}

// Schemas is a schema registry. It is called by several goroutines at a time, and once for each id unless a Decoder has
// met the bounds of what it remembers.
type Schemas interface {
	// Schema returns the schema with this id, which a record of the topic has. An error that wraps ErrNoSchema is final, and
	// the record's; another one may pass.
	Schema(ctx context.Context, id SchemaID, topic string) (Registered, error)
}

// ErrNoSchema says that a registry answered, and has no Avro or Protobuf schema with the id.
var ErrNoSchema = errors.New("the schema registry has no such Avro or Protobuf schema")
