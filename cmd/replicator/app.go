package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes, which scripts rely on.
const (
	exitDone      = 0
	exitFailed    = 1 // failed while running
	exitUsage     = 2 // wrong usage or configuration
	exitPreflight = 3 // check found an error, or own tables that migrate: manual leaves to others are not there

	exitDifferences = 4 // verify found differences
)

// version and commit are set by the linker. Without it the commit is what the go command noted.
var (
	version = "dev"
	commit  = ""
)

// codedError is an error that says how the program ends.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

func usage(err error) error { return &codedError{exitUsage, err} }

// app is one call of the program.
type app struct {
	stdout, stderr io.Writer
	getenv         func(string) (string, bool)
	started        bool // a command has begun: errors are no longer about usage
	json           bool // --json
}

// Main runs the program with args (without its name) and returns its exit code. The end of ctx is what a first SIGTERM
// is: a running pipeline cuts a last checkpoint.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr, getenv: os.LookupEnv}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	code := exitFailed
	var coded *codedError
	switch {
	case errors.As(err, &coded):
		code = coded.code
	case !a.started:
		code = exitUsage
		err = fmt.Errorf("%w; see replicator --help", err)
	}
	for line := range strings.Lines(redact(err.Error())) {
		fmt.Fprintf(stderr, "replicator: %s\n", printable(strings.TrimRight(line, "\n")))
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "replicator",
		Short:         "Keeps a PostgreSQL, MySQL or MariaDB database in step with a MySQL one, through Debezium and Kafka, exactly once.",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.Help(); err != nil {
				return err
			}
			return usage(errors.New("name a command"))
		},
		PersistentPreRun: func(*cobra.Command, []string) { a.started = true },
	}
	root.AddCommand(a.runCommand(), a.checkCommand(), a.verifyCommand(), a.cutoverCommand(), a.demoCommand(), a.checkpointsCommand(), a.transactionsCommand(), a.lettersCommand(), a.statusCommand(), a.sqlCommand(), a.schemaCommand(), a.migrateCommand(), a.versionCommand(), a.manCommand())
	return root
}

// group is a command that only has commands below it.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		var names []string
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		return usage(fmt.Errorf("%s: name a command: %s", cmd.CommandPath(), strings.Join(names, ", ")))
	}}
	c.AddCommand(commands...)
	return c
}

// configFlags are the flags of every command that reads a configuration.
type configFlags struct {
	file string
	set  []string
}

func (f *configFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "the configuration file; config.example.yaml shows every key")
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "KEY.PATH=VALUE: put a value over the file's; may be repeated")
}

func (a *app) load(f *configFlags) (config, error) {
	if f.file == "" {
		return config{}, usage(errors.New("--config FILE is missing; config.example.yaml shows every key"))
	}
	c, err := loadConfig(f.file, f.set, a.getenv)
	if err != nil {
		return config{}, usage(err)
	}
	return c, nil
}

func (a *app) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
}

// printJSON writes v as one document on stdout.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print version, commit and Go version.", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			if a.json {
				return a.printJSON(v)
			}
			_, err := fmt.Fprintf(a.stdout, "replicator %s, commit %s, %s\n", v.Version, v.Commit, v.Go)
			return err
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// readVersion returns what the linker and the go command left in the binary.
func readVersion() versionInfo {
	v := versionInfo{Version: version, Commit: commit, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok && v.Commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	if v.Commit == "" {
		v.Commit = "unknown"
	}
	return v
}
