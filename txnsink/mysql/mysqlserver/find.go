package mysqlserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// programs says where the servers' programs are: in an environment variable, where `e2e/lab/lab install-servers` puts
// them, or where a package does.
var programs = map[Kind]struct {
	env      string
	lab      string // below the lab's folder of servers
	packaged []string
}{
	MySQL9:  {env: "REPLICATOR_TEST_MYSQL9", lab: "mysql9/mysqld"},
	MySQL8:  {env: "REPLICATOR_TEST_MYSQL8", lab: "mysql8/mysqld"},
	MariaDB: {env: "REPLICATOR_TEST_MARIADB", lab: "mariadb/mariadbd", packaged: []string{"mariadbd", "/usr/sbin/mariadbd"}},
}

// find returns the path of a server's program. It downloads nothing.
func find(kind Kind) (string, error) {
	where, ok := programs[kind]
	if !ok {
		return "", fmt.Errorf("there is no kind of server called %q", kind)
	}
	if path := os.Getenv(where.env); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("%s: %w", where.env, err)
		}
		return path, nil
	}
	for _, path := range append([]string{filepath.Join(labDir(), "servers", where.lab)}, where.packaged...) {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("no %s server on this machine: run `e2e/lab/lab install-servers` (root on Debian), or name its program in %s", kind, where.env)
}

// labDir is the lab's LAB_HOME.
func labDir() string {
	if dir := os.Getenv("LAB_HOME"); dir != "" {
		return dir
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = "/var/tmp"
	}
	return filepath.Join(cache, "replicator-e2e")
}

// shareDir returns MariaDB's folder of SQL that makes the system's tables.
func shareDir(program string) (string, error) {
	dir := filepath.Join(filepath.Dir(program), "..", "share", "mysql")
	if _, err := os.Stat(filepath.Join(dir, bootstrapFiles[0])); errors.Is(err, os.ErrNotExist) {
		dir = "/usr/share/mysql"
	}
	_, err := os.Stat(filepath.Join(dir, bootstrapFiles[0]))
	return dir, err
}
