// Package tether ends a process and removes its directory when the process that started it is gone, however that came: by SIGKILL, a
// test's time limit, a panic. Servers for tests and for the demo hang on one, or they would run on for ever.
//
// A shell waits at the other end of a pipe that only this process holds open. It reads there which process is to be ended, and the end
// of the file when this process is gone; no signal and no clean-up of this process has a part in it.
package tether

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Tether is a directory, and at most one process at a time, that are not to outlive this process. Its methods are called by one
// goroutine at a time.
type Tether struct {
	pipe  *os.File  // what is written here, the watcher reads; nil where there are none
	watch *exec.Cmd // the watcher
}

// none is what is written when no process is tied: an empty line.
const none = "\n"

// watcher reads a line for each process that is tied, and an empty one when it is gone. At the end of the file it ends the last one: first
// as PostgreSQL wants to be asked, whose children then end too, and go on if it was stopped; and removes the directory.
const watcher = `trap '' HUP INT QUIT TERM
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ] && kill -QUIT "$pid"; then
	kill -CONT "$pid"
	tries=0
	while kill -0 "$pid" && [ "$tries" -lt 10 ]; do sleep 1; tries=$((tries + 1)); done
	kill -KILL "$pid"
fi
[ -z "$1" ] || rm -rf "$1" || { sleep 2; rm -rf "$1"; }`

// tied writes its own process id to the watcher, closes the pipe, and becomes the program. So there is no moment at which
// the program runs and the watcher does not know.
const tied = `echo $$ >&3 && exec "$@" 3>&-`

// Hold watches over dir, which is removed when this process is gone; empty: over no directory. It is to be released.
func Hold(dir string) (*Tether, error) {
	if !supported {
		return &Tether{}, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("tie %s to this process: %w", dir, err)
	}
	cmd := exec.Command("/bin/sh", "-c", watcher, "tether", dir)
	cmd.Stdin = read
	cmd.Dir = "/" // not where somebody wants to unmount
	detach(cmd)
	err = errors.Join(cmd.Start(), read.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tie %s to this process: %w", dir, err), write.Close())
	}
	return &Tether{write, cmd}, nil
}

// Tie makes cmd, which has not started, end with this process. Its process has the id and the parent that it would have without. Untie is
// called when it has ended and was waited for, or did not start.
func (t *Tether) Tie(cmd *exec.Cmd) {
	if t.pipe == nil || cmd.Err != nil {
		return
	}
	cmd.Args = append([]string{"/bin/sh", "-c", tied, "tether", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.ExtraFiles = []*os.File{t.pipe}
}

// Untie says that the process that was tied is gone: its id may be another's soon.
func (t *Tether) Untie() error {
	if t.pipe == nil {
		return nil
	}
	if _, err := io.WriteString(t.pipe, none); err != nil {
		return fmt.Errorf("untie a process: %w", err)
	}
	return nil
}

// Release ends the watch and removes the directory, if it is still there. A process that is still tied is ended first.
func (t *Tether) Release() error {
	if t.pipe == nil {
		return nil
	}
	err := errors.Join(t.pipe.Close(), t.watch.Wait())
	if err != nil {
		return fmt.Errorf("release a tether: %w", err)
	}
	return nil
}
