package migrations

import (
	"errors"
	"fmt"
	"os"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

// Tables are the replicator's own in one database.
type Tables struct {
	// Kind is the folder of their definitions: postgres or mysql.
	Kind string
	// Open connects to the database. What it returns is used by one call of a method, which closes it.
	Open func() (database.Driver, error)
	// Plain takes the driver's types off an error. One of this package, for which trying again does not help, must come back as it is.
	Plain func(error) error
}

// State is how far the own tables are.
type State struct {
	Current int // the version of the tables; 0: there are none
	Latest  int // the version that this program needs
}

// permanentError is an error that trying again brings again.
type permanentError struct{ text string }

func (e *permanentError) Error() string   { return e.text }
func (e *permanentError) Permanent() bool { return true }

func permanent(format string, args ...any) error {
	return &permanentError{fmt.Sprintf(format, args...)}
}

// Up creates the tables, or brings them up to date. It may run in several processes at once. If they are up to date, it asks for no
// right to create anything.
func (t Tables) Up() error {
	err := t.with(func(m *migrate.Migrate, _ source.Driver) error {
		err := m.Up()
		switch {
		case errors.Is(err, migrate.ErrNoChange):
			return nil
		case errors.Is(err, os.ErrNotExist):
			return permanent("they are of a later version of the replicator than this program: use that one")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate the replicator's own tables: %w", t.Plain(err))
	}
	return nil
}

// Down brings the tables back to an earlier version, for an older program, and loses no position: the first version's tables stay
// whatever is asked for. No pipeline may be running. Where the older tables have no room for what these say, it is an error.
func (t Tables) Down(version int) error {
	if version < 1 {
		return permanent("version %d has no tables, and the positions would be lost: the first version is 1", version)
	}
	err := t.with(func(m *migrate.Migrate, _ source.Driver) error {
		current, _, err := m.Version()
		switch {
		case err != nil:
			return err
		case version > int(current):
			return permanent("they have version %d: Down does not bring them up to %d", current, version)
		}
		if err := m.Migrate(uint(version)); !errors.Is(err, migrate.ErrNoChange) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("migrate the replicator's own tables down to version %d: %w", version, t.Plain(err))
	}
	return nil
}

// Status returns how far the tables are. It changes nothing.
func (t Tables) Status() (State, error) {
	var out State
	err := t.with(func(m *migrate.Migrate, src source.Driver) error {
		current, _, err := m.Version()
		if err != nil && !errors.Is(err, migrate.ErrNilVersion) {
			return err
		}
		out.Current = int(current)
		latest, err := src.First()
		for err == nil {
			out.Latest = int(latest)
			latest, err = src.Next(latest)
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("look at the replicator's own tables: %w", t.Plain(err))
	}
	return out, nil
}

// with lends do golang-migrate on the database.
func (t Tables) with(do func(*migrate.Migrate, source.Driver) error) error {
	src, err := iofs.New(files, t.Kind)
	if err != nil {
		return err
	}
	driver, err := t.Open()
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", src, t.Kind, driver)
	if err != nil {
		return errors.Join(err, driver.Close())
	}
	err = do(m, src)
	sourceErr, databaseErr := m.Close()
	return errors.Join(err, sourceErr, databaseErr)
}
