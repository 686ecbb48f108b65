package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowedImports is the shape of the program: what each package may import of this module and of others, the standard library
// aside. A package that is not here fails, as does an import that is not. Below a package stands what is to its left.
var allowedImports = map[string][]string{
	// The chain. Its left half has no network, clock or goroutine, and no driver.
	"schema":     {},
	"debezium":   {"schema", "github.com/bufbuild/protocompile", "google.golang.org/protobuf"}, // Protobuf's schemas, and bytes
	"sqlgen":     {"debezium", "schema"},
	"txnsink":    {"sqlgen", "schema"},
	"checkpoint": {"txnsink", "sqlgen", "debezium", "schema", "schema/mysqlddl", "golang.org/x/sync/errgroup"},

	// Pure too: the parser of MySQL's statements stays in its leaf.
	"schema/mysqlddl": {"schema", "vitess.io/vitess/go/vt/sqlparser"},

	// The leaves: a driver is imported by its leaf only.
	"debezium/kafka":             {"debezium", "github.com/segmentio/kafka-go", "github.com/klauspost/compress"},
	"debezium/kafka/broker":      {"debezium", "github.com/twmb/franz-go"},
	"debezium/registry":          {"debezium"}, // and net/http
	"debezium/debeziumtest":      {"debezium"},
	"txnsink/postgres":           {"txnsink", "sqlgen", "schema", "migrations", "github.com/jackc/pgx/v5", "github.com/golang-migrate/migrate/v4"},
	"txnsink/postgres/preflight": {"schema", "sqlgen", "github.com/jackc/pgx/v5"}, // asks as a stranger would, without a sink
	"txnsink/postgres/pgserver": {
		"github.com/jackc/pgx/v5", // whether the server answers is asked in its protocol
		"github.com/fergusstrange/embedded-postgres",
		"txnsink/tether",
	},
	"txnsink/tether":            {}, // a process that ends with the one that started it
	"txnsink/mysql":             {"txnsink", "sqlgen", "schema", "migrations", "github.com/go-sql-driver/mysql", "github.com/golang-migrate/migrate/v4"},
	"checkpoint/mysql":          {"checkpoint", "txnsink", "txnsink/mysql"}, // the driver stays behind database/sql
	"txnsink/kafka":             {"txnsink", "sqlgen", "schema", "github.com/twmb/franz-go"},
	"txnsink/mysql/mysqlserver": {"github.com/go-sql-driver/mysql", "txnsink/tether"}, // whether the server answers is asked in its protocol
	"txnsink/sinktest":          {"txnsink", "sqlgen", "debezium", "schema"},
	"checkpoint/file":           {"checkpoint", "txnsink"},
	"checkpoint/postgres":       {"checkpoint", "txnsink", "txnsink/postgres", "github.com/jackc/pgx/v5"},
	"checkpoint/storetest":      {"checkpoint", "txnsink", "debezium"},
	"migrations":                {"github.com/golang-migrate/migrate/v4"},

	// The databases at both ends, compared without the events between them.
	"verify":           {"sqlgen", "schema", "golang.org/x/sync/errgroup"},
	"verify/mysql":     {"verify", "debezium", "schema", "github.com/go-sql-driver/mysql"},
	"verify/postgres":  {"verify", "sqlgen", "schema", "github.com/jackc/pgx/v5"},
	"cutover":          {"sqlgen", "schema"},
	"cutover/postgres": {"schema", "github.com/jackc/pgx/v5"},

	"testdata/debezium": {},

	// The command, which wires.
	"cmd/replicator": {
		"schema", "debezium", "debezium/kafka", "debezium/registry", "sqlgen", "txnsink", "txnsink/postgres",
		"txnsink/mysql", "txnsink/kafka", "checkpoint/mysql", "checkpoint", "checkpoint/file", "checkpoint/postgres", "cmd/replicator/demo", "cmd/replicator/ops", "txnsink/postgres/preflight",
		"verify", "verify/mysql", "verify/postgres", "cutover", "cutover/postgres",
		"github.com/spf13/cobra", "go.yaml.in/yaml/v3",
	},
	"cmd/replicator/ops": {"checkpoint", "debezium", "sqlgen", "txnsink", "github.com/prometheus/client_golang"}, // and net/http
	"cmd/replicator/demo": {
		"debezium", "debezium/debeziumtest", "debezium/kafka/broker", "txnsink/postgres/pgserver", "txnsink/tether", "testdata/debezium",
		"github.com/jackc/pgx/v5", // looks at the target with its own eyes
	},
	"e2e":         {"github.com/jackc/pgx/v5"},
	"e2e/browser": {"debezium", "debezium/kafka/broker", "txnsink/postgres/pgserver", "github.com/jackc/pgx/v5", "github.com/chromedp/chromedp", "github.com/chromedp/cdproto"},
}

// testOnly is what tests may import besides: servers, suites, and drivers that serve as an oracle.
var testOnly = []string{
	"debezium", "debezium/debeziumtest", "debezium/kafka", "debezium/kafka/broker", "debezium/registry", "txnsink/sinktest", "txnsink/postgres", "txnsink/postgres/pgserver",
	"txnsink/mysql", "txnsink/mysql/mysqlserver", "checkpoint/mysql", "verify/mysql", "verify/postgres", "github.com/go-sql-driver/mysql",
	"checkpoint/storetest", "checkpoint/file", "checkpoint/postgres", "sqlgen", "schema", "schema/mysqlddl", "txnsink", "e2e", "testdata/debezium",
	"github.com/jackc/pgx/v5", "github.com/twmb/franz-go", "github.com/segmentio/kafka-go", "github.com/klauspost/compress", "go.yaml.in/yaml/v3",
	"github.com/Shopify/toxiproxy/v2", "github.com/rs/zerolog", // faults between the programs of the real stack
}

// TestImportsGoOneWay reads every Go file of the module.
func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != root {
			return filepath.SkipDir
		}
		if path.Ext(file) != ".go" {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(dir)
		allowed, known := allowedImports[pkg]
		if !known {
			t.Errorf("package %s is not in allowedImports: say what it may import", pkg)
			return nil
		}
		seen[pkg] = true
		if strings.HasSuffix(file, "_test.go") {
			allowed = slices.Concat(allowed, testOnly, []string{pkg})
		}
		for _, name := range importsOf(t, file) {
			if !slices.ContainsFunc(allowed, func(a string) bool { return covers(a, name) }) {
				t.Errorf("%s imports %s: package %s may not", file, name, pkg)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range allowedImports {
		if !seen[pkg] {
			t.Errorf("allowedImports has %s, and there is no such package", pkg)
		}
	}
}

// importsOf returns the imports of a file, those of this module without its name, and not the standard library's.
func importsOf(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		own, isOwn := strings.CutPrefix(name, "replicator/")
		first, _, _ := strings.Cut(name, "/")
		switch {
		case isOwn:
			names = append(names, own)
		case strings.Contains(first, "."):
			names = append(names, name)
		}
	}
	return names
}

// covers says whether allowed is name, or, for another module, begins it: a module is allowed as a whole.
func covers(allowed, name string) bool {
	if allowed == name {
		return true
	}
	first, _, _ := strings.Cut(allowed, "/")
	return strings.Contains(first, ".") && strings.HasPrefix(name, allowed+"/")
}
