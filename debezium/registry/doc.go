// Package registry asks a schema registry for Avro and Protobuf schemas by id, for package debezium, over the two APIs that
// registries have:
//
//   - Confluent's (https://docs.confluent.io/platform/current/schema-registry/develop/api.html), GET /schemas/ids/{id},
//     which Apicurio, Karapace and Redpanda have too, and GET /subjects/{subject}/versions/{version} for what a schema
//     refers to;
//   - Apicurio's own, GET /apis/registry/v3/ids/globalIds/{id} and .../contentIds/{id}, or v2.
//
// Apicurio numbers schemas twice: a content id for each text, and a global id for each version of each topic's schema.
// Its serializers write one or the other by their option use-id, by default the global id up to version 2 and the
// content id since, also in Confluent's wire format; its Confluent-compatible API takes content ids only. So a schema of
// another table, or another version of the same, is easily taken for the right one, and may fit the bytes. Here an
// Apicurio registry is always asked by its own API, for both, until one of them is known to be meant.
//
// Nothing is remembered here: a [debezium.Decoder] asks once for each id.
package registry
