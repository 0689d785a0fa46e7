package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// removeSharedMemory removes the small System V segment by which PostgreSQL
// locks its data folder. A killed server leaves it until the next start on the
// same data; when there is none, it would stay until the machine restarts. Its
// key and id are the seventh line of postmaster.pid.
func removeSharedMemory(data string) error {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // stopped in order
	}
	if err != nil {
		return err
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 7 {
		return nil // killed before it had one
	}
	fields := strings.Fields(lines[6])
	if len(fields) != 2 {
		return nil
	}
	id, err := strconv.Atoi(fields[1])
	if err != nil {
		return fmt.Errorf("%s: shared memory id: %w", filepath.Join(data, "postmaster.pid"), err)
	}
	const ipcRemove = 0 // IPC_RMID, see shmctl(2)
	if _, _, errno := syscall.Syscall(syscall.SYS_SHMCTL, uintptr(id), ipcRemove, 0); errno != 0 && errno != syscall.EINVAL && errno != syscall.EIDRM {
		return fmt.Errorf("remove shared memory segment %d: %w", id, errno)
	}
	return nil
}
