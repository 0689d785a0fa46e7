package servers

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// account is who a server runs as. The zero account is whoever runs us.
type account struct {
	name  string
	uid   uint32
	gid   uint32
	other bool
}

// unprivileged returns the first of names that exists when we are root, which
// PostgreSQL and PgBouncer refuse to be, and ourselves otherwise.
func unprivileged(names ...string) (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "you", uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}, nil
	}
	for _, name := range append(names, "nobody") {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		return account{name: name, uid: uint32(uid), gid: uint32(gid), other: true}, nil
	}
	return account{}, fmt.Errorf("no account to run a server as: it refuses to be root, and none of %v exists", append(names, "nobody"))
}

// command runs path as the account, in dir, with an environment of its own:
// nothing of ours (PGHOST, LC_ALL, MYSQL_HOME …) shall bend a server.
func (a account) command(dir, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "LC_ALL=C", "HOME=" + dir, "TZ=UTC"}
	if a.other {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
	}
	return cmd
}

// own gives path to the account.
func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// mkdir makes a folder that only the account may enter.
func (a account) mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return a.own(path)
}

// writeFile writes a file that only the account may read.
func (a account) writeFile(path, content string) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	return a.own(path)
}

// reaches tells whether the account may pass through every folder down to dir,
// and else which one is in the way.
func (a account) reaches(dir string) (blocked string, err error) {
	if !a.other {
		return "", nil
	}
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	path := []string{dir}
	for dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		path = append(path, dir)
	}
	slices.Reverse(path)
	for _, p := range path {
		info, err := os.Stat(p)
		if err != nil {
			return "", err
		}
		if !a.mayPass(info) {
			return p, nil
		}
	}
	return "", nil
}

func (a account) mayPass(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	switch {
	case st.Uid == a.uid:
		return info.Mode()&0o100 != 0
	case st.Gid == a.gid:
		return info.Mode()&0o010 != 0
	default:
		return info.Mode()&0o001 != 0
	}
}
