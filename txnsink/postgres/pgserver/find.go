package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// embeddedVersion is the server that is downloaded where there is none.
const embeddedVersion = embedded.V17

// find returns the directory of initdb and postgres, downloading them to cache if the machine has none.
func find(cache string) (string, error) {
	dirs := debianDirs()
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if p, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(p))
	}
	for _, d := range dirs {
		if complete(d) {
			return d, nil
		}
	}
	return download(cache, embeddedVersion)
}

// debianDirs returns Debian's directories of server programs, the newest version first.
func debianDirs() []string {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil
	}
	version := func(dir string) int {
		n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil {
			return 0
		}
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return version(b) - version(a) })
	return dirs
}

// complete says whether dir has the programs of a server: a client's package has none.
func complete(dir string) bool {
	for _, p := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, p)); err != nil {
			return false
		}
	}
	return true
}

// download has embedded-postgres put the programs of a release into cache.
func download(cache string, release embedded.PostgresVersion) (string, error) {
	if cache == "" {
		dir, err := cacheDir()
		if err != nil {
			return "", fmt.Errorf("no PostgreSQL server on this machine, and nowhere to download one to: %w", err)
		}
		cache = filepath.Join(dir, "replicator")
	}
	base := filepath.Join(cache, "postgresql-"+string(release))
	bin := filepath.Join(base, "bin")
	if complete(bin) {
		return bin, nil
	}
	run, err := os.MkdirTemp("", "replicator-pg-download-")
	if err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	// embedded-postgres downloads only as a part of starting a server. Whether that start succeeds (as root it
	// does not) is of no interest once the programs are there.
	db := embedded.NewDatabase(embedded.DefaultConfig().Version(release).Port(uint32(port)).
		BinariesPath(base).CachePath(cache).RuntimePath(filepath.Join(run, "run")))
	startErr := db.Start()
	var stopErr error
	if startErr == nil {
		stopErr = db.Stop()
	}
	if err := errors.Join(stopErr, os.RemoveAll(run)); err != nil {
		return "", err
	}
	if !complete(bin) {
		return "", fmt.Errorf("no PostgreSQL server on this machine (looked in /usr/lib/postgresql, pg_config --bindir and the PATH), "+
			"and it cannot be downloaded; install one, such as Debian's package postgresql: %w", startErr)
	}
	return bin, nil
}
