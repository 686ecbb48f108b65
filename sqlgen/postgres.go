package sqlgen

import "replicator/schema"

// Postgres is the dialect of PostgreSQL, 12 and later. Values are arrays in PostgreSQL's binary format (see [Array]),
// one for each column, that SQL unnests: a statement has as many parameters as columns however many rows it carries.
//
// The fields are how SQL names the types of extensions that the target has, PostGIS's geometry and geography and pgvector's
// vector, as in "public.vector"; empty: it does not have it. New tables have columns of these types then, and else ones
// that any server has.
type Postgres struct{ Geometry, Geography, Vector string }

var (
	_ Dialect       = Postgres{}
	_ Canonicalizer = Postgres{}
)

// OwnSchemaAside is a statement that a session begins with. PostgreSQL's default search_path leads to the schema that is called like the
// role, if there is one: as soon as the replicator's own tables are there, a role called replicator would make and look for
// everybody's tables among them.
const OwnSchemaAside = `SELECT set_config('search_path', btrim(replace(current_setting('search_path'), '"$user"', ''), ', '), false) WHERE current_user = 'replicator'`

// Array is one argument of a PostgreSQL statement: a one-dimensional array in binary format
// (array_recv in PostgreSQL's src/backend/utils/adt/arrayfuncs.c).
type Array struct {
	OID  uint32 // the array type's
	Elem uint32 // the element type's
	Data []byte
}

// Canonical implements Canonicalizer: equality ignores the sign of a floating zero, the zeros after the point of a numeric
// without a fixed scale, and how a document of jsonb is written. What text a column that folds takes for equal only the server knows: there, statements
// compare the bytes too (see pgWriter.equal).
func (Postgres) Canonical(c schema.Column) func(dst, value []byte) []byte {
	switch c.Type.Kind {
	case schema.Float32, schema.Float64:
		return canonicalFloat
	case schema.Decimal:
		if c.Type.Length == 0 {
			return canonicalNumeric
		}
	case schema.JSONB:
		return canonicalJSONB
	}
	return nil
}
