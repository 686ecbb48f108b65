//go:build unix

package pgserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// serverUser returns the ids that the server runs with, and whether these differ from the caller's.
func serverUser() (uid, gid int, other bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil {
			return uid, gid, true
		}
	}
	return 0, 0, false
}

// cacheDir returns where downloaded programs go: root's own cache is closed to the server's user.
func cacheDir() (string, error) {
	if _, _, other := serverUser(); other {
		return "/var/cache", nil
	}
	return os.UserCacheDir()
}

// giveAway makes the server's user the owner of a file or a directory.
func giveAway(path string) error {
	uid, gid, other := serverUser()
	if !other {
		return nil
	}
	return os.Chown(path, uid, gid)
}

// unprivileged makes cmd run as the server's user. It gets a process group of its own: an interrupt typed at a terminal is
// for the caller, which stops the server when it wants to.
func unprivileged(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if uid, gid, other := serverUser(); other {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
}

// kill kills the process and its children with SIGKILL.
func (p *process) kill() error {
	if p.ended() {
		return nil
	}
	pid := p.cmd.Process.Pid
	// Stopped, it starts no more children while they are listed.
	if err := signal(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	all := children(pid)
	for _, victim := range append([]int{pid}, all...) {
		if err := signal(victim, syscall.SIGKILL); err != nil {
			return err
		}
	}
	return p.wait(all)
}

// stop asks for a fast shutdown.
func (p *process) stop() error {
	if p.ended() {
		return nil
	}
	pid := p.cmd.Process.Pid
	all := children(pid)
	if err := signal(pid, syscall.SIGINT); err != nil {
		return err
	}
	return p.wait(all)
}

// signal sends s to a process, which may be gone.
func signal(pid int, s syscall.Signal) error {
	if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}

// children returns the process ids whose parent is pid, where /proc tells; elsewhere none.
func children(pid int) []int {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var out []int
	for _, f := range files {
		if state, parent := stat(f); state != 0 && parent == pid {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// alive says whether a process runs. A zombie, which nobody waited for yet, does not.
func alive(pid int) bool {
	state, _ := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return state != 0 && state != 'Z' && state != 'X'
}

// stat reads a process's state and parent; state is 0 for a process that is gone. See proc_pid_stat(5): the
// name in parentheses may hold anything.
func stat(file string) (state byte, parent int) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0, 0
	}
	parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0, 0
	}
	return fields[0][0], parent
}
