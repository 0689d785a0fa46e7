package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// FolderVariable names the environment variable that moves the folder.
const FolderVariable = "YEKBAR_SERVICES_DIR"

// A folder holds what the servers write:
//
//	lock            held while runs are made or swept
//	templates/      freshly initialised data, copied for each server
//	bin/            programs that we built
//	run-*/lock      held as long as the run's process lives
//	run-*/<server>  one server's data and log
type folder struct {
	base string
	run  string
	held *os.File // the run's lock
}

// openFolder makes this process's run folder, once.
var openFolder = sync.OnceValues(func() (*folder, error) {
	base, err := baseFolder()
	if err != nil {
		return nil, err
	}
	f := &folder{base: base}
	unlock, err := lockFile(filepath.Join(base, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := sweep(base); err != nil {
		return nil, err
	}
	for _, name := range []string{"templates", "bin"} {
		if err := os.MkdirAll(filepath.Join(base, name), 0o755); err != nil {
			return nil, err
		}
	}
	if f.run, err = os.MkdirTemp(base, "run-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(f.run, 0o711); err != nil {
		return nil, err
	}
	f.held, err = tryLock(filepath.Join(f.run, "lock"))
	if err == nil && f.held == nil {
		err = fmt.Errorf("%s: somebody else holds the lock of a new run", f.run)
	}
	if err != nil {
		return nil, err
	}
	opened.Store(true)
	return f, nil
})

// opened tells whether there is a run folder to remove.
var opened atomic.Bool

// remove deletes the run's data.
func (f *folder) remove() error {
	return errors.Join(os.RemoveAll(f.run), f.held.Close())
}

// baseFolder finds or makes the folder that all runs share: where the variable
// says, else .services beside go.work; or, where the servers' accounts could
// not get there, a private one among the temporary files.
func baseFolder() (string, error) {
	var accounts []account
	for _, names := range [][]string{{"postgres"}, {"mysql"}} {
		a, err := unprivileged(names...)
		if err != nil {
			return "", err
		}
		accounts = append(accounts, a)
	}
	wanted := os.Getenv(FolderVariable)
	if wanted == "" {
		root, err := repository()
		if err != nil {
			return "", err
		}
		wanted = filepath.Join(root, ".services")
	}
	wanted, err := filepath.Abs(wanted)
	if err != nil {
		return "", err
	}
	blocked, err := usable(wanted, accounts)
	if err != nil {
		return "", err
	}
	if blocked == "" {
		return wanted, nil
	}
	sum := sha256.Sum256([]byte(wanted))
	name := fmt.Sprintf("yekbar-services-%d-%s", os.Geteuid(), hex.EncodeToString(sum[:6]))
	for _, temp := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		dir := filepath.Join(temp, name)
		if why, err := usable(dir, accounts); err != nil || why != "" {
			continue
		}
		if err := private(dir); err != nil {
			return "", err
		}
		fmt.Fprintf(os.Stderr, "services: the servers' accounts may not enter %s; their data is in %s\n", blocked, dir)
		return dir, nil
	}
	return "", fmt.Errorf("the servers' accounts may not enter %s; set %s to a folder that every account may enter", blocked, FolderVariable)
}

// usable makes dir and says which folder on the way is closed to an account.
func usable(dir string, accounts []account) (blocked string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("folder for the servers' data: %w", err)
	}
	for _, a := range accounts {
		if blocked, err = a.reaches(dir); err != nil || blocked != "" {
			return blocked, err
		}
	}
	return "", nil
}

// private refuses a folder among the temporary files that another account made
// or may write to.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() || info.Mode()&0o022 != 0 {
		return fmt.Errorf("%s belongs to somebody else or is open to others; remove it, or set %s", dir, FolderVariable)
	}
	return nil
}

// repository is the folder with go.work, from here upwards.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.work in %s or above; run inside the repository, or set %s", dir, FolderVariable)
		}
	}
}

// Clean removes the folder with everything in it, unless a run uses it.
func Clean() error {
	base, err := baseFolder()
	if err != nil {
		return err
	}
	unlock, err := lockFile(filepath.Join(base, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if err := sweep(base); err != nil {
		return err
	}
	runs, err := filepath.Glob(filepath.Join(base, "run-*"))
	if err != nil {
		return err
	}
	if len(runs) > 0 {
		return fmt.Errorf("%s is in use by %d running test runs", base, len(runs))
	}
	return os.RemoveAll(base)
}

// sweep removes what killed runs left: the folder, and on Linux any process
// that still works in it. A run is dead when its lock can be taken; the kernel
// drops the lock with the process.
func sweep(base string) error {
	runs, err := filepath.Glob(filepath.Join(base, "run-*"))
	if err != nil {
		return err
	}
	for _, run := range runs {
		held, err := tryLock(filepath.Join(run, "lock"))
		if err != nil {
			return err
		}
		if held == nil {
			continue
		}
		if err := errors.Join(endProcessesIn(run), os.RemoveAll(run), held.Close()); err != nil {
			return fmt.Errorf("clean up after a killed run: %w", err)
		}
	}
	return nil
}

func endProcessesIn(run string) error {
	pids, err := processesIn(run)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := killPID(pid, syscall.SIGKILL); err != nil {
			return err
		}
	}
	if err := waitGone(pids, killBound); err != nil {
		return err
	}
	remains, err := filepath.Glob(filepath.Join(run, "*", "data", "postmaster.pid"))
	if err != nil {
		return err
	}
	for _, path := range remains {
		if err := removeSharedMemory(filepath.Dir(path)); err != nil {
			return err
		}
	}
	return nil
}

// tryLock takes a lock file, or returns nil when another process holds it.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// lockFile waits for a lock.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { f.Close() }, nil
}

// template returns initialised data for servers of a kind, made once for all
// runs with the same key: initdb and its like take seconds, a copy does not.
func (f *folder) template(kind Kind, key string, build func(dir string) error) (string, error) {
	sum := sha256.Sum256([]byte(key))
	name := strings.ToLower(string(kind)) + "-" + hex.EncodeToString(sum[:8])
	path := filepath.Join(f.base, "templates", name)
	unlock, err := lockFile(filepath.Join(f.base, "templates", name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// Under a name of its own until it is whole; a killed builder's is replaced.
	unfinished := path + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	if err := os.Mkdir(unfinished, 0o711); err != nil {
		return "", err
	}
	if err := build(unfinished); err != nil {
		return "", errors.Join(fmt.Errorf("initialise %s: %w", kind, err), os.RemoveAll(unfinished))
	}
	return path, os.Rename(unfinished, path)
}
