package mysqlserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"replicator/txnsink/tether"
)

// templateVersion is part of a template's name: raise it with every change of how one is made.
const templateVersion = 1

// bootstrapFiles is what MariaDB makes its own tables from, as its mariadb-install-db does.
var bootstrapFiles = []string{"mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql"}

// template returns a data directory as the server's initialisation leaves it, for copying. It is made once for a program
// and kept in the user's cache: MySQL needs seconds for one, and a copy of it a fraction of a second.
func template(ctx context.Context, kind Kind, program string) (string, error) {
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	h := fnv.New64a()
	fmt.Fprint(h, program, info.Size(), info.ModTime().UnixNano())
	parent := filepath.Join(cache, "replicator", "mysqlserver")
	dir := filepath.Join(parent, fmt.Sprintf("%s-%d-%016x", kind, templateVersion, h.Sum64()))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return "", err
	}
	hold, err := tether.Hold(temporary)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(temporary))
	}
	data := filepath.Join(temporary, "data")
	err = initialise(ctx, kind, program, temporary, data, hold)
	if err != nil {
		err = fmt.Errorf("make a data directory with %s: %w", program, err)
	} else if err = os.Rename(data, dir); errors.Is(err, fs.ErrExist) {
		err = nil // another process has made the same meanwhile, and its one is as good
	}
	return dir, errors.Join(err, os.RemoveAll(temporary), hold.Release())
}

// initialise makes a data directory with a user root@127.0.0.1 who has no password and may do everything.
func initialise(ctx context.Context, kind Kind, program, dir, data string, hold *tether.Tether) error {
	if err := os.Mkdir(data, 0o755); err != nil {
		return err
	}
	args := []string{"--datadir=" + data}
	var input []byte
	if kind == MariaDB {
		args = append(args, "--no-defaults", "--bootstrap", "--log-warnings=0", "--enforce-storage-engine=", "--innodb-log-file-size=16M")
		args[0], args[1] = args[1], args[0] // --no-defaults comes first
		sql, err := bootstrapSQL(program)
		if err != nil {
			return err
		}
		input = sql
	} else {
		const users = "CREATE USER root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
		file := filepath.Join(dir, "users.sql")
		if err := os.WriteFile(file, []byte(users), 0o644); err != nil {
			return err
		}
		args = append(args, "--initialize-insecure", "--init-file="+file)
	}
	cmd := exec.CommandContext(ctx, program, append(args, userArgs()...)...)
	cmd.Stdin = bytes.NewReader(input)
	hold.Tie(cmd)
	out, err := cmd.CombinedOutput()
	if err := errors.Join(err, hold.Untie()); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out[max(0, len(out)-logTail):])))
	}
	return nil
}

// bootstrapSQL returns what makes MariaDB's own tables, and root without a password.
func bootstrapSQL(program string) ([]byte, error) {
	share, err := shareDir(program)
	if err != nil {
		return nil, fmt.Errorf("the SQL of MariaDB's own tables is missing: %w", err)
	}
	sql := []byte("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n")
	for _, name := range bootstrapFiles {
		text, err := os.ReadFile(filepath.Join(share, name))
		if err != nil {
			return nil, err
		}
		sql = append(append(sql, text...), '\n')
	}
	return sql, nil
}

// userArgs lets a server run as root if the caller is: it refuses otherwise.
func userArgs() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}
